"""Signed links to attachments, for messages that would be too large. Pure.

The page, "Attachments and size"; security, section 3 ("Signed link"). A link is good
for one file until an instant; one that is not tells nobody why.
"""

import base64
import binascii
import hashlib
import hmac
import html as markup
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from core.ids import is_id
from mailboxes.thread_tokens import ALPHABET
from outbound.body import Bodies, append_html

MAC_BYTES: Final = 16
TOKEN_LIMIT: Final = 400
"""Characters of a token that is looked at; ours have fewer than 250."""

_UNITS: Final = ("bytes", "kB", "MB", "GB")


@dataclass(frozen=True, slots=True)
class LinkTarget:
    """The file that a link is good for, and until when (whole seconds)."""

    tenant_id: str
    identity_id: str
    message_id: str
    attachment_id: str
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class LinkedFile:
    """An attachment that left the message, and where it can be had."""

    filename: str
    size: int
    url: str
    expires_at: datetime


def mint_link(target: LinkTarget, *, kid: str, key: bytes) -> str:
    """Return the token of a link: base64url of a payload and 16 octets of its MAC."""
    payload = ":".join(
        (
            f"l1:{kid}:att",
            target.tenant_id,
            target.identity_id,
            target.message_id,
            target.attachment_id,
            str(int(target.expires_at.timestamp())),
        )
    ).encode("ascii")
    return base64.urlsafe_b64encode(payload + _mac(payload, key)).rstrip(b"=").decode()


def read_link(
    token: str, *, key_of: Callable[[str], bytes | None], now: datetime
) -> LinkTarget | None:
    """Return what a link is good for; None for one that is broken, forged or expired.

    ``key_of`` gives the key of a name, or None. The MAC is compared in constant time.
    """
    octets = _decoded(token)
    payload, mac = octets[:-MAC_BYTES], octets[-MAC_BYTES:]
    try:
        version, kid, kind, *ids, expires = payload.decode("ascii").split(":")
    except (UnicodeDecodeError, ValueError):
        return None
    key = key_of(kid) if len(kid) == 1 and kid in ALPHABET else None
    if key is None or not hmac.compare_digest(_mac(payload, key), mac):
        return None
    if (version, kind) != ("l1", "att") or not _are_ids(ids):
        return None
    expires_at = datetime.fromtimestamp(int(expires), UTC)
    tenant_id, identity_id, message_id, attachment_id = ids
    target = LinkTarget(tenant_id, identity_id, message_id, attachment_id, expires_at)
    return target if now < expires_at else None


def files_to_link(
    sizes: Sequence[int],
    *,
    embedded: Sequence[bool],
    composed_size: Callable[[frozenset[int]], int],
    limit: int,
) -> frozenset[int] | None:
    """Return which attachments leave the message so that it fits, by their places.

    The largest first, one after the other, until the composed message has at most
    ``limit`` octets; of equal ones the first. Files that the HTML shows in place are
    the last to go. ``composed_size`` composes the message without some files, their
    links in the body. None: it is too large even without all of them.
    """
    order = sorted(range(len(sizes)), key=lambda n: (embedded[n], -sizes[n], n))
    left = sum(sizes)
    for count in range(len(order) + 1):
        linked = frozenset(order[:count])
        # composing costs time: not while what is left alone is too large
        if left <= limit and composed_size(linked) <= limit:
            return linked
        left -= sizes[order[count]] if count < len(order) else 0
    return None


def with_links(bodies: Bodies, files: Sequence[LinkedFile]) -> Bodies:
    """Return the bodies with a line for each file that left the message."""
    if not files:
        return bodies
    lines = [
        f"{file.filename} ({human_size(file.size)}): {file.url} ({_until(file)})"
        for file in files
    ]
    fragment = "".join(
        f'<p><a href="{markup.escape(file.url)}">{markup.escape(file.filename)}</a>'
        f" ({human_size(file.size)}, {_until(file)})</p>"
        for file in files
    )
    apart = "\n\n" if bodies.text else ""
    return Bodies(
        bodies.text + apart + "\n".join(lines), append_html(bodies.html, fragment)
    )


def human_size(size: int) -> str:
    """Return a number of bytes for people, e.g. ``3.8 MB``; a kB has 1,000 bytes."""
    amount = float(size)
    for unit in _UNITS[:-1]:
        if amount < 999.95:
            return f"{amount:.0f} {unit}" if unit == "bytes" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} {_UNITS[-1]}"


def _until(file: LinkedFile) -> str:
    expires = file.expires_at.astimezone(UTC).replace(microsecond=0, tzinfo=None)
    return f"available until {expires.isoformat()}Z"


def _mac(payload: bytes, key: bytes) -> bytes:
    return hmac.new(key, payload, hashlib.sha256).digest()[:MAC_BYTES]


def _decoded(token: str) -> bytes:
    """Return a token's octets; empty for what is no base64url in its one spelling."""
    if len(token) > TOKEN_LIMIT or not token.isascii():
        return b""
    try:
        octets = base64.b64decode(
            token + "=" * (-len(token) % 4), altchars=b"-_", validate=True
        )
    except (binascii.Error, ValueError):
        return b""
    spelled = base64.urlsafe_b64encode(octets).rstrip(b"=").decode()
    return octets if spelled == token else b""


def _are_ids(ids: Sequence[str]) -> bool:
    return len(ids) == 4 and all(
        (
            is_id(ids[0], "ten"),
            is_id(ids[1], "idn"),
            is_id(ids[2], "msg"),
            is_id(ids[3], "att"),
        )
    )
