"""Pure: a composed message under another sender, for mail that leaves by fallback."""

import re
from typing import Final

from outbound.headers import Mailbox, addresses_field

REWRITTEN: Final = frozenset({b"from", b"reply-to"})
_NEXT_FIELD: Final = re.compile(rb"\r\n(?![ \t])")


def with_sender(mime: bytes, *, from_: Mailbox, reply_to: Mailbox | None) -> bytes:
    """Return the message with this From and Reply-To; no other octet changes.

    They stand where From stood; Message-ID stays as it was (architecture section 9).
    """
    head, gap, body = mime.partition(b"\r\n\r\n")
    fields = _NEXT_FIELD.split(head)
    names = [field.partition(b":")[0].strip().lower() for field in fields]
    at = names.index(b"from") if b"from" in names else 0
    others = [
        (n, field)
        for n, (name, field) in enumerate(zip(names, fields, strict=True))
        if name not in REWRITTEN
    ]
    before = [field for n, field in others if n < at]
    after = [field for n, field in others if n >= at]
    return b"\r\n".join([*before, *_named(from_, reply_to), *after]) + gap + body


def _named(from_: Mailbox, reply_to: Mailbox | None) -> list[bytes]:
    fields = [addresses_field("From", [from_])]
    if reply_to is not None:
        fields.append(addresses_field("Reply-To", [reply_to]))
    return [field.removesuffix("\r\n").encode("ascii") for field in fields]
