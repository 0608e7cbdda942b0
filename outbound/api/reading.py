"""Reading messages for the API: rows become the same JSON as an accepted send."""

from django.db.models import QuerySet

from delivery.models import Attempt, Delivery
from mailboxes.mail_selectors import message_among, seen_messages
from mailboxes.models import Attachment, Message
from mailboxes.statuses import Direction
from mailboxes.trust import TRUST_FLAGS, trust_of
from outbound import serializers
from outbound.serializers import Json, MessageFacts, instant, render_message


def message_of(identity_id: str, message_id: str) -> Message:
    """Return one message of a mailbox; raises MessageNotFound."""
    return message_among(messages_of(identity_id), message_id)


def attempt_json(attempt: Attempt) -> Json:
    """Return one conversation with a transport."""
    return {
        "n": attempt.n,
        "provider": attempt.provider,
        "claimed_at": instant(attempt.claimed_at),
        "phase": attempt.phase,
        "finished_at": instant(attempt.finished_at),
        "result": attempt.result,
        "code": attempt.code,
        "detail": attempt.detail,
    }


def message_json(message: Message) -> Json:
    """Return a stored message as the API shows it."""
    is_inbound = message.direction == Direction.INBOUND
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
            trust=trust_of(message) if is_inbound else None,
            rfc_message_id=message.rfc_message_id,
            in_reply_to=message.in_reply_to,
            provider_message_id=message.provider_message_id,
            deliveries=None
            if is_inbound
            else [_delivery(row) for row in message.deliveries.all()],
            evidence=message.evidence,
            flags=[flag for flag in message.flags if flag not in TRUST_FLAGS],
        )
    )


def messages_of(identity_id: str) -> QuerySet[Message]:
    """Return the messages of a mailbox that may be seen, with what belongs to each."""
    related = ("attachments", "labels", "deliveries")
    found = seen_messages(identity_id).select_related("thread")
    return found.prefetch_related(*related)


def listed_messages(identity_id: str) -> QuerySet[Message]:
    """Return the same without the bodies, up to 1.5 MiB each, that no list shows."""
    return messages_of(identity_id).defer("text", "html_sanitized")


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
