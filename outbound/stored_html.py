"""The sanitised copy of a sent HTML body: made when it is first asked for.

The page, "Storage of an accepted send": the row keeps what may be shown, the sent copy
keeps what was sent. Made on first read, not by the worker: most mail that is sent is
never read again, a worker's threads are for calls, and a reader who asks for HTML is
the one who may wait for it. Whoever asks holds no transaction, lock or claim.
"""

import email
import email.policy
from dataclasses import replace
from typing import Final

from core import objects
from core.ids import is_id
from core.sanitized import Sanitized
from core.sanitizing import TooCostly, sanitize_apart
from mailboxes.models import Message
from mailboxes.statuses import Direction, Operation
from outbound.order import Order

TRUNCATED: Final = "body_truncated"
NOTHING: Final = Sanitized("", has_hidden_text=False)
LEFT_OUT: Final = Sanitized("", has_hidden_text=False, is_truncated=True)
"""HTML that costs more than its limit: text is shown instead, and a flag says so."""


def sanitized_html(message: Message, *, keep: bool = True) -> str | None:
    """Return the HTML of a message as it may be shown; None if it has none.

    The first call for a sent message reads its sent copy and stores the result, unless
    it is not to ``keep`` it; an empty text says that there is no HTML, so that nobody
    looks again. A sent copy that is gone (retention) is no HTML either, and not
    remembered. Two first calls at once store the same. Raises ObjectStoreAway, and
    Unavailable when the machine is too busy.
    """
    is_new = message.html_sanitized is None and message.direction == Direction.OUTBOUND
    if not is_new or message.raw_key is None:
        return message.html_sanitized or None
    try:
        made = _sanitized(objects.get(message.raw_key))
    except objects.ObjectMissing:
        return None
    if keep:
        _store(message, made)
    return made.html or None


def with_original(order: Order, *, keep: bool) -> Order:
    """Return an order with the HTML of our own message that it forwards, if any.

    Asked before a transaction begins: to sanitise takes longer than a key may be held.
    A dry run does not ``keep`` what was made.
    """
    if order.operation != Operation.FORWARD or not is_id(order.message_id or "", "msg"):
        return order
    found = Message.objects.filter(
        identity_id=order.identity_id,
        public_id=order.message_id,
        direction=Direction.OUTBOUND,
    ).first()
    if found is None:
        return order
    return replace(order, original_html=sanitized_html(found, keep=keep))


def html_of(mime: bytes) -> str | None:
    """Return the HTML body of a message that we composed; None if it has none."""
    parsed = email.message_from_bytes(mime, policy=email.policy.default)
    body = parsed.get_body(("html",))
    return None if body is None else str(body.get_content())


def _sanitized(mime: bytes) -> Sanitized:
    page = html_of(mime)
    if page is None:
        return NOTHING
    try:
        return sanitize_apart(page)
    except TooCostly:
        return LEFT_OUT


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
