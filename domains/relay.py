"""Where a domain's mail is submitted, with which login; sealed on the domain's row."""

import json
from dataclasses import asdict, dataclass, field
from typing import Final
from urllib.parse import unquote, urlsplit

from domains.names import normal_name

PORTS: Final = {"smtps": 465, "smtp": 587}
"""Schemes and their ports: TLS from the first octet, or STARTTLS demanded."""

_PRIVATE_SUFFIXES: Final = (
    *(".localhost", ".local", ".internal", ".invalid", ".test", ".example"),
    *(".onion", ".home.arpa", ".arpa"),
)


@dataclass(frozen=True, slots=True)
class RelaySettings:
    """A relay as it is stored: host, port, login, and what a probe is sent from.

    ``implicit_tls`` is TLS from the first octet; otherwise STARTTLS is demanded. ``ca``
    is a PEM bundle, None for the deployment's or the system's.
    """

    host: str
    port: int
    username: str
    password: str = field(repr=False)
    probe_from: str = ""
    implicit_tls: bool = False
    ca: str | None = field(default=None, repr=False)

    def to_json(self) -> bytes:
        """Return the form that is sealed."""
        return json.dumps(asdict(self), separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, raw: bytes) -> "RelaySettings":
        """Return the relay that ``to_json`` wrote."""
        return cls(**json.loads(raw))


def parse_relay_url(
    url: str, *, probe_from: str = "", is_local: bool = False
) -> RelaySettings:
    """Return the relay of ``smtps://user:password@host:port``; ``smtp://`` is STARTTLS.

    Login parts are percent-decoded. Ports other than 465 and 587, IP addresses and
    private names are for the local environment only (security, section 4). Raises
    ValueError, whose text never holds the URL: it may hold a password.
    """
    try:
        parts = urlsplit(url.strip())
        port = parts.port
    except ValueError:
        raise ValueError("is not a URL with a port number") from None
    if parts.scheme not in PORTS:
        raise ValueError("must begin with smtps:// (TLS) or smtp:// (STARTTLS)")
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise ValueError(
            "must end after the port: a / ? or # in a login is %2F %3F %23"
        )
    if not parts.hostname:
        raise ValueError("names no host")
    if not parts.username or not parts.password:
        raise ValueError("needs a user and a password: smtps://user:password@host:port")
    relay = RelaySettings(
        host=parts.hostname,
        port=PORTS[parts.scheme] if port is None else port,
        username=unquote(parts.username),
        password=unquote(parts.password),
        probe_from=probe_from,
        implicit_tls=parts.scheme == "smtps",
    )
    if not is_local:
        _check_public(relay)
    return relay


def _check_public(relay: RelaySettings) -> None:
    """Refuse what only the local environment may use; ValueError says what and why."""
    if relay.port not in PORTS.values():
        raise ValueError("must use port 465 or 587")
    try:
        name = normal_name(relay.host)
    except ValueError:
        raise ValueError("must name its host by a full DNS name") from None
    if name.endswith(_PRIVATE_SUFFIXES):
        raise ValueError("must name a public host")
