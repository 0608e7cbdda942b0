"""The shapes of messages as the API shows them, for its description."""

from datetime import datetime
from typing import Any, ClassVar, Literal

from pydantic import ConfigDict, Field

from core.schemas import Page, Shape
from delivery.statuses import AttemptPhase, AttemptResult, DeliveryStatus
from mailboxes.statuses import (
    Direction,
    Evidence,
    MessageKind,
    MessageStatus,
    Provider,
)
from outbound.api.examples import ATTEMPT_SHOWN, MESSAGE_SHOWN, THREAD_SHOWN


class NamedAddress(Shape):
    """An address and the name shown for it."""

    address: str
    name: str | None


class AttachmentOut(Shape):
    """A file of a message; the size is in bytes."""

    id: str
    filename: str | None
    content_type: str
    size: int
    disposition: Literal["attachment", "inline"] | None


class DeliveryOut(Shape):
    """What became of one recipient."""

    address: str
    field: Literal["to", "cc", "bcc"]
    status: DeliveryStatus
    reason: str | None
    smtp_code: str | None
    enhanced_code: str | None
    bounce_type: Literal["hard", "soft"] | None
    updated_at: datetime


class Trust(Shape):
    """How far an inbound message can be trusted."""

    known_sender: bool
    automated: bool
    flags: list[str]


class MessageOut(Shape):
    """A message of a mailbox."""

    model_config = ConfigDict(populate_by_name=True)
    example: ClassVar[dict[str, Any]] = MESSAGE_SHOWN

    id: str
    thread_id: str
    identity_id: str
    direction: Direction
    status: MessageStatus
    reason: str | None
    from_: NamedAddress | None = Field(alias="from")
    to: list[NamedAddress]
    cc: list[NamedAddress]
    bcc: list[NamedAddress]
    reply_to: list[NamedAddress]
    delivered_to: str | None
    is_primary_recipient: bool | None
    subject: str | None
    sent_at: datetime | None
    received_at: datetime
    extracted_text: str | None
    attachments: list[AttachmentOut]
    labels: list[str]
    metadata: dict[str, str]
    kind: MessageKind
    trust: Trust | None
    rfc_message_id: str | None
    in_reply_to: str | None
    provider_message_id: str | None
    deliveries: list[DeliveryOut] | None
    evidence: Evidence | None = Field(
        description="What settled a send that was `uncertain`, from the strongest to"
        " the weakest: `late_outcome`, the transport's own answer, after all; `tag`, an"
        " event with our id; `provider_id`, one with the provider's; `person`, somebody"
        " by `resolve`; `match`, an event that fits no other send."
    )
    flags: list[str]


class HeaderOut(Shape):
    """A header field as it stands in the message, unfolded and not decoded."""

    name: str
    value: str


class MessageWithIncludes(MessageOut):
    """A message with what ``include`` asked for; what was not asked for is absent."""

    text: str | None = None
    html: str | None = None
    headers: list[HeaderOut] = []


class AcceptedMessage(MessageOut):
    """The answer to a send: a snapshot of the message when it was accepted."""

    example: ClassVar[dict[str, Any]] = {**MESSAGE_SHOWN, "deduplicated": False}

    deduplicated: bool


class DryRunRecipient(Shape):
    """What would become of one recipient; the reason is why one is set aside."""

    address: str
    field: Literal["to", "cc", "bcc"]
    status: Literal["queued", "suppressed"]
    reason: str | None = None


class DryRun(Shape):
    """What a send would do; nothing of it has been done."""

    example: ClassVar[dict[str, Any]] = {
        "would_send": True,
        "recipients": [
            {"address": "jo@example.net", "field": "to", "status": "queued"},
            {
                "address": "lee@example.org",
                "field": "cc",
                "status": "suppressed",
                "reason": "hard_bounce",
            },
        ],
    }

    would_send: Literal[True]
    recipients: list[DryRunRecipient]


class MessagePage(Page):
    """Messages, newest first."""

    data: list[MessageOut]


class AttemptOut(Shape):
    """One conversation with a transport, and how far it got."""

    example: ClassVar[dict[str, Any]] = ATTEMPT_SHOWN

    n: int
    provider: Provider
    claimed_at: datetime
    phase: AttemptPhase
    finished_at: datetime | None
    result: AttemptResult | None
    code: str | None
    detail: str | None


class AttemptPage(Page):
    """Attempts of a message, oldest first."""

    data: list[AttemptOut]


class Hold(Shape):
    """Why a thread must be kept, until when, and who said so."""

    reason: str
    until: datetime | None
    set_by: str | None
    set_at: datetime


class ThreadOut(Shape):
    """A conversation in one mailbox; its labels are those of its messages."""

    example: ClassVar[dict[str, Any]] = THREAD_SHOWN

    id: str
    subject: str
    snippet: str = Field(max_length=240, description="Of its newest message.")
    labels: list[str]
    archived: bool
    participants: list[NamedAddress] = Field(max_length=50)
    message_count: int
    unread_count: int
    first_at: datetime
    last_at: datetime
    last_inbound_at: datetime | None
    last_direction: Direction
    hold: Hold | None = Field(description="Null: threads cannot be held yet.")


class ThreadPage(Page):
    """Threads, the one with the newest message first."""

    data: list[ThreadOut]


class ThreadWithMessages(ThreadOut):
    """A thread and a page of its messages, oldest first."""

    example: ClassVar[dict[str, Any]] = {
        **THREAD_SHOWN,
        "messages": [MESSAGE_SHOWN],
        "next_cursor": None,
    }

    messages: list[MessageWithIncludes]
    next_cursor: str | None = Field(
        description="Pass it as `cursor` for the messages that follow; null at the end."
    )
