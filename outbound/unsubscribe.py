"""The way out of marketing mail: one-click headers (RFC 8058), and what is asked. Pure.

The page, policy step 9 and "Body", step 4.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from core.addresses import normalize
from core.errors import AddressInvalid, AddressUnsupported, FieldError
from outbound.headers_policy import Header

URL_BYTES: Final = 900
"""A header cannot break inside a URL, and a line has at most 998 octets."""

_URI: Final = re.compile(
    r"[!#-;=?-Z_a-z~\[\]]+"
)  # RFC 3986: no blank, quote or bracket


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """How a reader gets off the list.

    ``mailto`` is an address. ``is_visible`` is False for mail whose own text says how,
    such as our notifications: headers without a footer.
    """

    url: str
    mailto: str | None = None
    is_visible: bool = True


def unsubscribe_faults(wanted: Unsubscribe | None) -> Iterator[FieldError]:
    """Yield what is wrong with a way out (400 ``marketing_requirements_missing``)."""
    if wanted is None:
        yield FieldError("unsubscribe", "Marketing says how to get off the list.")
        return
    if not _is_https(wanted.url):
        yield FieldError(
            "unsubscribe.url", f"An https URL in ASCII, at most {URL_BYTES} bytes."
        )
    if wanted.mailto is not None and not _is_address(wanted.mailto):
        yield FieldError("unsubscribe.mailto", "This is no address.")


def unsubscribe_headers(wanted: Unsubscribe) -> tuple[Header, ...]:
    """Return the two headers of one-click unsubscription: exactly one HTTPS URI."""
    ways = [f"<{wanted.url}>"]
    if wanted.mailto is not None:
        ways.append(f"<mailto:{normalize(wanted.mailto)}>")
    return (
        ("List-Unsubscribe", ", ".join(ways)),
        ("List-Unsubscribe-Post", "List-Unsubscribe=One-Click"),
    )


def _is_https(url: str) -> bool:
    if len(url) > URL_BYTES or _URI.fullmatch(url) is None:
        return False
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018  a port that is none raises
    except ValueError:
        return False
    return parts.scheme.lower() == "https" and bool(parts.hostname)


def _is_address(mailto: str) -> bool:
    try:
        normalize(mailto)
    except (AddressInvalid, AddressUnsupported):
        return False
    return True
