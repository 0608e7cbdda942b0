"""Where an endpoint may point: the guard's rules for a URL (security, section 4)."""

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from django.conf import settings

from core.network import (
    HostRefused,
    LookupFailed,
    check_name,
    checked_addresses,
    is_private,
)

LONGEST_URL: Final = 2048
"""Bytes of a URL."""

LOOKUP_SECONDS: Final = 5.0
"""How long whoever saves a URL waits for its host's addresses."""

_CHARACTERS: Final = re.compile(r"[!$-;=?-\[\]_a-z~]+")
"""What RFC 3986 lets stand in a URL, without ``#``."""

_AUTHORITY: Final = re.compile(
    r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^:@\[\]]+)(:(?P<port>[1-9][0-9]{0,4}))?"
)


class DestinationRefused(Exception):
    """Nothing is sent to this URL; the message says why, and never holds the URL."""


class HostForbidden(DestinationRefused):
    """The guard forbids this host, or one of its addresses."""


@dataclass(frozen=True, slots=True)
class Destination:
    """A URL that has passed the rules, and the host and port that it leads to."""

    url: str
    host: str
    port: int
    is_https: bool = True


def check_destination(url: str) -> Destination:
    """Return a URL's destination if it may be an endpoint's at this moment.

    Looks its host up, for at most 5 s: every address must be public. In the local
    environment private ones pass as well, and plain HTTP to them. What is found is good
    for nothing but this answer: each attempt looks again. Raises DestinationRefused.
    """
    found = parse_destination(url)
    try:
        addresses = checked_addresses(
            found.host, found.port, seconds=LOOKUP_SECONDS, allow_private=settings.LOCAL
        )
    except HostRefused as error:
        raise HostForbidden(str(error)) from error
    except LookupFailed as error:
        raise DestinationRefused("the host has no address") from error
    if not found.is_https and not all(is_private(one) for one in addresses):
        raise DestinationRefused("must begin with https://")
    return found


def parse_destination(url: str) -> Destination:
    """Return a URL's destination, by its text alone; raises DestinationRefused.

    In the local environment the host may be any, and the scheme ``http`` too.
    """
    if len(url.encode("utf-8", "surrogatepass")) > LONGEST_URL:
        raise DestinationRefused(f"must have at most {LONGEST_URL} bytes")
    if "#" in url:
        raise DestinationRefused("must have no fragment")
    if not _CHARACTERS.fullmatch(url):
        raise DestinationRefused("must have no character that a URL cannot hold")
    try:
        parts = urlsplit(url)
    except ValueError:
        raise DestinationRefused("is not a URL") from None
    schemes = {"https": 443} | ({"http": 80} if settings.LOCAL else {})
    if parts.scheme not in schemes:
        raise DestinationRefused("must begin with https://")
    host, port = _authority(parts.netloc, otherwise=schemes[parts.scheme])
    return Destination(url, host, port, is_https=parts.scheme == "https")


def own_hosts() -> tuple[str, ...]:
    """Return the names that lead to this deployment, and whose lower names do."""
    return settings.PM_API_HOST.partition(":")[0], settings.PM_PLATFORM_DOMAIN


def _authority(text: str, *, otherwise: int) -> tuple[str, int]:
    if "@" in text:
        raise DestinationRefused("must have no user and no password")
    found = _AUTHORITY.fullmatch(text)
    if found is None:
        raise DestinationRefused("must name a host, and a port or none")
    port = int(found["port"]) if found["port"] else otherwise
    if port != otherwise and port != 443 and not 1024 <= port <= 65535:
        raise DestinationRefused("must have port 443, or one from 1024 to 65535")
    if settings.LOCAL:
        return found["host"].strip("[]"), port
    try:
        return check_name(found["host"], refused=own_hosts()), port
    except HostRefused as error:
        raise HostForbidden(str(error)) from error
