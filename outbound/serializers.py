"""Pure: the message as the API shows it (REST contract 2.6 and 2.7)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from delivery.statuses import RecipientField
from mailboxes.services import render_instant
from mailboxes.statuses import Direction
from outbound.plan import PlannedRecipient, SendPlan

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageFacts:
    """What a message's JSON is made of, wherever it was read."""

    id: str
    thread_id: str
    identity_id: str
    direction: str
    status: str
    reason: str | None
    from_: Json | None
    to: Sequence[Json]
    cc: Sequence[Json]
    bcc: Sequence[Json]
    reply_to: Sequence[Json]
    delivered_to: str | None
    is_primary_recipient: bool | None
    subject: str | None
    sent_at: datetime | None
    received_at: datetime
    extracted_text: str | None
    attachments: Sequence[Json]
    labels: Sequence[str]
    metadata: Mapping[str, str]
    kind: str
    trust: Json | None
    rfc_message_id: str | None
    in_reply_to: str | None
    provider_message_id: str | None
    deliveries: Sequence[Json] | None
    evidence: str | None
    flags: Sequence[str]


def render_message(facts: MessageFacts) -> Json:
    """Return the message object; each caller gets a fresh one."""
    return {
        "id": facts.id,
        "thread_id": facts.thread_id,
        "identity_id": facts.identity_id,
        "direction": facts.direction,
        "status": facts.status,
        "reason": facts.reason,
        "from": facts.from_,
        "to": list(facts.to),
        "cc": list(facts.cc),
        "bcc": list(facts.bcc),
        "reply_to": list(facts.reply_to),
        "delivered_to": facts.delivered_to,
        "is_primary_recipient": facts.is_primary_recipient,
        "subject": facts.subject,
        "sent_at": instant(facts.sent_at),
        "received_at": instant(facts.received_at),
        "extracted_text": facts.extracted_text,
        "attachments": list(facts.attachments),
        "labels": list(facts.labels),
        "metadata": dict(facts.metadata),
        "kind": facts.kind,
        "trust": facts.trust,
        "rfc_message_id": facts.rfc_message_id,
        "in_reply_to": facts.in_reply_to,
        "provider_message_id": facts.provider_message_id,
        "deliveries": None if facts.deliveries is None else list(facts.deliveries),
        "evidence": facts.evidence,
        "flags": list(facts.flags),
    }


def accepted_message(plan: SendPlan, *, rfc_message_id: str, now: datetime) -> Json:
    """Return the answer to an accepted send, from the plan alone."""
    return render_message(
        MessageFacts(
            id=plan.message_id,
            thread_id=plan.thread.id,
            identity_id=plan.identity_id,
            direction=Direction.OUTBOUND,
            status=plan.status,
            reason=None,
            from_=person(plan.from_address, plan.from_name),
            to=people(plan.in_field(RecipientField.TO)),
            cc=people(plan.in_field(RecipientField.CC)),
            bcc=people(plan.in_field(RecipientField.BCC)),
            reply_to=reply_to_of(plan),
            delivered_to=None,
            is_primary_recipient=None,
            subject=plan.subject,
            sent_at=now,
            received_at=now,
            extracted_text=plan.extracted_text,
            attachments=[
                attachment(
                    id=planned.id,
                    filename=planned.file.filename,
                    content_type=planned.file.content_type,
                    size=len(planned.file.content),
                    disposition=planned.file.disposition,
                )
                for planned in plan.files
            ],
            labels=sorted(plan.labels),
            metadata=plan.metadata,
            kind=plan.kind,
            trust=None,
            rfc_message_id=rfc_message_id,
            in_reply_to=plan.in_reply_to,
            provider_message_id=None,
            deliveries=[
                delivery(r.address, r.field, r.status, updated_at=now, reason=r.reason)
                for r in sorted(plan.recipients, key=lambda r: r.address)
            ],
            evidence=None,
            flags=plan.flags,
        )
    )


def reply_to_of(plan: SendPlan) -> list[Json]:
    """Return the Reply-To of a plan as named addresses: one, or none."""
    if plan.reply_to is None:
        return []
    return [person(plan.reply_to.address, plan.reply_to.name)]


def person(address: str, name: str | None) -> Json:
    """Return a named address."""
    return {"address": address, "name": name}


def people(recipients: Sequence[PlannedRecipient]) -> list[Json]:
    """Return the recipients of one field as named addresses."""
    return [person(r.address, r.name) for r in recipients]


def attachment(
    *,
    id: str,
    filename: str | None,
    content_type: str,
    size: int,
    disposition: str | None,
) -> Json:
    """Return an attachment without its bytes; the size is in bytes."""
    return {
        "id": id,
        "filename": filename,
        "content_type": content_type,
        "size": size,
        "disposition": disposition,
    }


def delivery(
    address: str,
    field: str,
    status: str,
    *,
    updated_at: datetime,
    reason: str | None = None,
    smtp_code: str | None = None,
    enhanced_code: str | None = None,
    bounce_type: str | None = None,
) -> Json:
    """Return one recipient's status."""
    return {
        "address": address,
        "field": field,
        "status": status,
        "reason": reason,
        "smtp_code": smtp_code,
        "enhanced_code": enhanced_code,
        "bounce_type": bounce_type,
        "updated_at": instant(updated_at),
    }


def instant(at: datetime | None) -> str | None:
    """Return an instant as the API shows it: RFC 3339, UTC, milliseconds."""
    return None if at is None else render_instant(at)
