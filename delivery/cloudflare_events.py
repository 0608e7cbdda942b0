"""What a message of Cloudflare's queue says of a delivery: pure.

The page, "Delivery events", has the payload and its one form here. A body comes in
base64 (content types ``json`` and ``bytes``) or as text; a word that no column can hold
costs the event nothing but that word.
"""

import base64
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from core.addresses import normalize
from core.errors import AddressInvalid, AddressUnsupported
from delivery.events import DeliveryEvent
from delivery.statuses import DeliveryKind, EventSource

KINDS: Final = {
    f"cf.email.sending.message.{kind}": kind
    for kind in (
        *(DeliveryKind.DELIVERED, DeliveryKind.DEFERRED, DeliveryKind.BOUNCED),
        *(DeliveryKind.FAILED, DeliveryKind.REJECTED, DeliveryKind.COMPLAINED),
    )
}
LONGEST_RESPONSE: Final = 512
LONGEST_CODE: Final = 16
OLDEST: Final = timedelta(days=366)
"""An instant that lies further back, or ahead of now, is none that a provider knows."""

_EVENT_ID: Final = re.compile(r"[!-~]{1,255}")
_MESSAGE_ID: Final = re.compile(r"[!-~]{1,2048}")
_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")


class NoEvent(StrEnum):
    """Why a message of the queue is no event of a delivery; it is acknowledged."""

    UNKNOWN_TYPE = "unknown_type"
    UNREADABLE = "unreadable"


class _Unreadable(Exception):
    """The body does not have the documented form."""


def event_of(
    body: object, *, published_at: datetime | None, now: datetime
) -> DeliveryEvent | NoEvent:
    """Return the event that one message of the queue holds, or why it holds none.

    ``body`` is as the API gave it. ``published_at`` is when it came into the queue: it
    stands in for an event's own instant that cannot be right, as ``now`` does for both.
    """
    try:
        said = _decoded(body)
        if not isinstance(event_type := said.get("type"), str):
            raise _Unreadable
        if (kind := KINDS.get(event_type)) is None:
            return NoEvent.UNKNOWN_TYPE
        payload = _part(said, "payload")
        recipient = _address(payload.get("recipient"))
        own = _instant(_part(said, "metadata").get("eventTimestamp"))
        at = next((at for at in (own, published_at) if at and _is_likely(at, now)), now)
        return _event(kind, payload, recipient=recipient, occurred_at=at)
    except (_Unreadable, AddressInvalid, AddressUnsupported):
        return NoEvent.UNREADABLE


def _event(
    kind: DeliveryKind,
    payload: Mapping[str, Any],
    *,
    recipient: str,
    occurred_at: datetime,
) -> DeliveryEvent:
    told, bounce = _part(payload, "delivery"), _part(payload, "bounce")
    subject = payload.get("subject")
    if (event_id := _id(payload.get("eventId"), _EVENT_ID)) is None:
        raise _Unreadable
    return DeliveryEvent(
        source=EventSource.CLOUDFLARE,
        event_id=event_id,
        provider_message_id=_id(payload.get("messageId"), _MESSAGE_ID),
        sender=_address(payload.get("sender")),
        recipient=recipient,
        kind=kind,
        occurred_at=occurred_at,
        # compared with what we sent: nothing of it changes but what cannot be stored
        subject=_UNSTORABLE.sub("?", subject) if isinstance(subject, str) else None,
        hard=kind == DeliveryKind.BOUNCED and bounce.get("type") == "hard",
        smtp_code=_text(told.get("smtpStatusCode"))[:LONGEST_CODE] or None,
        enhanced_code=_text(told.get("smtpEnhancedStatusCode"))[:LONGEST_CODE] or None,
        smtp_response=_response(payload),
    )


def _response(payload: Mapping[str, Any]) -> str | None:
    """Return the server's words or, where none was asked, the provider's."""
    rejection = _part(payload, "rejection")
    words = (
        _part(payload, "delivery").get("smtpResponse"),
        _part(payload, "bounce").get("reason"),
        rejection.get("detail"),
        rejection.get("reason"),
        _part(payload, "failure").get("reason"),
    )
    said = next(filter(None, map(_text, words)), "")
    return said[:LONGEST_RESPONSE] or None


# --- what stands in a body -----------------------------------------------------------


def _decoded(body: object) -> Mapping[str, Any]:
    """Return the object that a body holds; base64 never begins like one."""
    try:
        found = body
        if isinstance(body, str):
            is_plain = body.lstrip().startswith("{")
            found = json.loads(
                body if is_plain else base64.b64decode(body, validate=True)
            )
    except (ValueError, RecursionError):
        raise _Unreadable from None
    if not isinstance(found, dict):
        raise _Unreadable
    return found


def _part(said: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = said.get(name)
    return part if isinstance(part, dict) else {}


def _text(value: object) -> str:
    """Return words that can be kept and shown on one line; empty for anything else."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return ""
    shown = "".join(c if c.isprintable() else " " for c in str(value)[:4096])
    return " ".join(shown.split())


def _id(value: object, form: re.Pattern[str]) -> str | None:
    is_id = isinstance(value, str) and form.fullmatch(value)
    return str(value) if is_id else None


def _address(value: object) -> str:
    if not isinstance(value, str):
        raise _Unreadable
    return normalize(value)


def _instant(value: object) -> datetime | None:
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) else None
        return found.astimezone(UTC) if found and found.tzinfo else None
    except (ValueError, OverflowError):
        return None


def _is_likely(at: datetime, now: datetime) -> bool:
    return now - OLDEST <= at <= now
