"""The sanitised copy of a sent HTML body: made when it is first asked for.

The page, "Storage of an accepted send": the row keeps what may be shown, the sent copy
keeps what was sent. Sanitising takes too long for the path of a send.
"""

import email
import email.policy
from typing import Final

from core import objects
from core.sanitize import Sanitized, sanitize
from mailboxes.models import Message
from mailboxes.statuses import Direction

TRUNCATED: Final = "body_truncated"


def sanitized_html(message: Message) -> str | None:
    """Return the HTML of a message as it may be shown; None if it has none.

    The first call for a sent message reads its sent copy and stores the result; an
    empty text says that there is no HTML, so that nobody looks again. A sent copy that
    is gone (retention) is no HTML either, and not remembered. Raises ObjectStoreAway.
    Two first calls at once store the same.
    """
    is_new = message.html_sanitized is None and message.direction == Direction.OUTBOUND
    if is_new and message.raw_key is not None:
        try:
            mime = objects.get(message.raw_key)
        except objects.ObjectMissing:
            return None
        page = html_of(mime)
        _store(message, sanitize(page) if page is not None else Sanitized("", False))
    return message.html_sanitized or None


def html_of(mime: bytes) -> str | None:
    """Return the HTML body of a message that we composed; None if it has none."""
    parsed = email.message_from_bytes(mime, policy=email.policy.default)
    body = parsed.get_body(("html",))
    return None if body is None else str(body.get_content())


def _store(message: Message, made: Sanitized) -> None:
    flags = list(message.flags)
    if made.is_truncated and TRUNCATED not in flags:
        flags.append(TRUNCATED)
    # whoever comes second changes nothing, and no flag that was set meanwhile is lost
    row = Message.objects.filter(
        key=message.key, html_sanitized__isnull=True, flags=message.flags
    )
    row.update(html_sanitized=made.html, flags=flags)
    message.html_sanitized, message.flags = made.html, flags
