"""Reading messages for the API: rows become the same JSON as an accepted send."""

import base64
import binascii
from typing import Any, Final

from django.db.models import QuerySet

from core.errors import InvalidRequest, MessageNotFound
from core.ids import is_id
from delivery.models import Attempt, Delivery
from mailboxes.models import Attachment, Message
from outbound import serializers
from outbound.files import UNSEEN
from outbound.serializers import Json, MessageFacts, instant, render_message

LIMIT, MOST = 25, 100
CURSOR_PREFIX: Final = "c_"


def message_of(identity_id: str, message_id: str) -> Message:
    """Return one message of a mailbox; raises MessageNotFound."""
    found = None
    if is_id(message_id, "msg"):
        found = _messages(identity_id).filter(public_id=message_id).first()
    if found is None:
        raise MessageNotFound("No such message.")
    return found


def message_page(
    identity_id: str, *, limit: str | None, cursor: str | None
) -> tuple[list[Message], str | None]:
    """Return a page of a mailbox, newest first, and the cursor of the next.

    Raises InvalidRequest for a limit outside 1 to 100, or a cursor of another list.
    """
    size = _limit(limit)
    found = _messages(identity_id).order_by("-key")
    if cursor is not None:
        found = found.filter(key__lt=_key_at(identity_id, cursor))
    rows = list(found[: size + 1])
    more = len(rows) > size
    return rows[:size], _cursor(rows[size - 1].public_id) if more else None


def attempts_of(message: Message) -> list[Json]:
    """Return the transport attempts of a message, oldest first."""
    return [
        {
            "n": attempt.n,
            "provider": attempt.provider,
            "claimed_at": instant(attempt.claimed_at),
            "phase": attempt.phase,
            "finished_at": instant(attempt.finished_at),
            "result": attempt.result,
            "code": attempt.code,
            "detail": attempt.detail,
        }
        for attempt in Attempt.objects.filter(message=message).order_by("n")
    ]


def message_json(message: Message) -> Json:
    """Return a stored message as the API shows it."""
    is_inbound = message.direction == "inbound"
    sender = message.from_address
    return render_message(
        MessageFacts(
            id=message.public_id,
            thread_id=message.thread.public_id,
            identity_id=message.identity_id,
            direction=message.direction,
            status=message.status,
            reason=message.reason,
            from_=serializers.person(sender, message.from_name) if sender else None,
            to=message.to_addrs,
            cc=message.cc_addrs,
            bcc=message.bcc_addrs,
            reply_to=message.reply_to,
            delivered_to=message.delivered_to,
            is_primary_recipient=message.is_primary_recipient if is_inbound else None,
            subject=message.subject,
            sent_at=message.sent_at,
            received_at=message.received_at,
            extracted_text=message.extracted_text,
            attachments=[_attachment(row) for row in message.attachments.all()],
            labels=sorted(row.label for row in message.labels.all()),
            metadata=message.metadata,
            kind=message.kind,
            rfc_message_id=message.rfc_message_id,
            in_reply_to=message.in_reply_to,
            provider_message_id=message.provider_message_id,
            deliveries=[_delivery(row) for row in message.deliveries.all()],
            flags=message.flags,
        )
    )


def _messages(identity_id: str) -> QuerySet[Message]:
    related = ("attachments", "labels", "deliveries")
    found = Message.objects.filter(identity_id=identity_id).exclude(status__in=UNSEEN)
    return found.select_related("thread").prefetch_related(*related)


def _attachment(row: Attachment) -> Json:
    return serializers.attachment(
        id=row.id,
        filename=row.filename,
        content_type=row.content_type,
        size=row.size,
        disposition=row.disposition,
    )


def _delivery(row: Delivery) -> Json:
    return serializers.delivery(
        row.address,
        row.field,
        row.status,
        updated_at=row.updated_at,
        reason=row.reason,
        smtp_code=row.smtp_code,
        enhanced_code=row.enhanced_code,
        bounce_type=row.bounce_type,
    )


def _limit(raw: str | None) -> int:
    if raw is None:
        return LIMIT
    if raw.isascii() and raw.isdecimal() and 1 <= int(raw[:9]) <= MOST:
        return int(raw)
    raise InvalidRequest.at("limit", f"A whole number from 1 to {MOST}.")


def _cursor(message_id: str) -> str:
    return CURSOR_PREFIX + base64.urlsafe_b64encode(message_id.encode()).decode()


def _key_at(identity_id: str, cursor: str) -> Any:
    """Return the ordering key of the last message of the page before."""
    refusal = InvalidRequest.at("cursor", "This is no cursor of this list.")
    try:
        text = base64.urlsafe_b64decode(cursor.removeprefix(CURSOR_PREFIX)).decode()
    except (binascii.Error, ValueError):
        raise refusal from None
    if not cursor.startswith(CURSOR_PREFIX) or not is_id(text, "msg"):
        raise refusal
    row = Message.objects.filter(identity_id=identity_id, public_id=text)
    if (key := row.values_list("key", flat=True).first()) is None:
        raise refusal
    return key
