"""What each type of event holds (REST contract, section 5.2), as it is published.

``data`` has exactly these fields when it is stored. Clients are told no such thing:
later versions add some.
"""

from datetime import datetime
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model

from core.ids import ID_PATTERN, Prefix
from mailboxes.api.identity_schemas import AddressOut, IdentityOut
from mailboxes.services import API_VERSION
from mailboxes.statuses import (
    Direction,
    KeyLevel,
    MessageKind,
    MessageStatus,
    PauseReason,
)


class Told(BaseModel):
    """A part of an event."""

    model_config = ConfigDict(extra="forbid", defer_build=True)


def _form(prefix: Prefix) -> Any:
    return Field(pattern=ID_PATTERN.format(prefix=prefix))


MessageId = Annotated[str, _form("msg")]
ThreadId = Annotated[str, _form("thr")]
FileId = Annotated[str, _form("att")]
IdentityId = Annotated[str, _form("idn")]
TenantId = Annotated[str, _form("ten")]
EventId = Annotated[str, _form("evt")]
KeyId = Annotated[str, _form("key")]
WebhookId = Annotated[str, _form("whk")]
Words = Annotated[str, Field(max_length=512)]


class Envelope(Told):
    """What every event says; its schema adds the type and the data."""

    id: EventId
    api_version: Annotated[str, Field(pattern=f"^{API_VERSION}$")]
    occurred_at: datetime
    tenant_id: TenantId | None = Field(description="Null for the platform's own.")
    identity_id: IdentityId | None
    sequence: Annotated[int, Field(ge=1)] | None = Field(
        description="Strictly rising for each identity; drop an update that is lower"
        " than one you have. Null for events of a tenant or of the platform."
    )


class EventPerson(Told):
    """An address and the name beside it."""

    address: str
    name: str | None


class EventMessage(Told):
    """A message, without any body of an outbound one."""

    id: MessageId
    thread_id: ThreadId
    direction: Direction
    status: MessageStatus
    sender: EventPerson | None = Field(alias="from")
    to: list[EventPerson]
    cc: list[EventPerson]
    delivered_to: str | None
    is_primary_recipient: bool | None
    subject: str | None
    sent_at: datetime | None
    received_at: datetime
    kind: MessageKind
    labels: list[str]
    in_reply_to: str | None
    flags: list[str]


class MessageNamed(Told):
    """Names a message."""

    message_id: MessageId


class RecipientNamed(MessageNamed):
    """Names a message and one recipient of it."""

    recipient: str


class MessageSent(Told):
    """A transport took the message, or a person resolved that it was sent."""

    message: EventMessage
    provider: Literal["cloudflare", "ses", "smtp", "simulator", "loopback"] | None = (
        Field(description="Null where evidence settled a send whose call is unknown.")
    )
    provider_message_id: str | None
    sent_via_fallback: bool


class MessageDelivered(RecipientNamed):
    """The recipient's server took it."""

    smtp_code: str | None


class MessageDeferred(RecipientNamed):
    """The provider is still trying."""

    smtp_code: str | None
    smtp_response: Words | None


class MessageBounced(MessageDeferred):
    """It came back; a hard bounce suppresses the recipient."""

    bounce_type: Literal["hard", "soft"]
    suppressed: bool


class MessageComplained(RecipientNamed):
    """The reader objected, and is suppressed."""

    suppressed: Literal[True]


class MessageFailed(MessageNamed):
    """It was given up unsent."""

    reason: str


class MessageRejected(MessageFailed):
    """It was refused for good."""

    detail: str | None


class MessageUncertain(MessageNamed):
    """It may have been sent, and is not tried again."""

    reason: str
    fix: str


class MessageReconciled(MessageNamed):
    """Evidence has settled an uncertain send."""

    status: MessageStatus


class MessageSuppressed(MessageNamed):
    """Every recipient was filtered."""

    recipients: list[str]


class EventTrust(Told):
    """What is known of who sent it."""

    known_sender: bool
    automated: bool
    flags: list[str]


class EventFile(Told):
    """A file of a message."""

    id: FileId
    filename: str | None
    content_type: str
    size: int
    disposition: Literal["attachment", "inline"] | None


class MessageReceived(Told):
    """A message came in; its text up to ``webhook_text_bytes`` of the policy."""

    message: EventMessage
    thread_id: ThreadId
    trust: EventTrust
    extracted_text: str | None
    extracted_text_truncated: bool
    attachments: list[EventFile]


class IdentityCreated(Told):
    """A new identity."""

    identity: IdentityOut


class IdentityUpdated(IdentityCreated):
    """The identity as it is now, and which fields of it changed."""

    changed: list[str]


class IdentityResumed(Told):
    """The identity may send again."""

    identity_id: IdentityId


class IdentityPaused(IdentityResumed):
    """The identity sends nothing; ``metrics`` where it was paused for abuse."""

    reason: PauseReason
    metrics: dict[str, int] = Field(default_factory=dict)


class AddressTold(Told):
    """The address as it is now."""

    address: AddressOut


class AddressPromoted(AddressTold):
    """The address is the primary one now."""

    previous_primary: AddressOut


class SuppressionCreated(Told):
    """An address will not be mailed again; ``address_hint`` is all that is kept."""

    address_hint: str
    reason: Literal["hard_bounce", "complaint", "unsubscribe", "manual", "provider"]
    source_message_id: MessageId | None


class QuotaWarning(Told):
    """A daily cap is used up to 80 or 100 %."""

    metric: Literal["sends"]
    used: int
    limit: int
    scope: Literal["identity", "tenant"]


class BillingLimitReached(Told):
    """The first refusal of a feature in a period."""

    feature: Literal["inboxes", "sends", "custom_domains", "storage_gb"]
    granted: int | None
    used: int
    resets_at: datetime | None


class PolicyUpdated(Told):
    """Which fields changed, and who changed them; no values."""

    fields: list[str]
    by: KeyLevel
    actor_key_id: KeyId | None
    policy_version: int


class WebhookDisabled(Told):
    """An endpoint is told nothing more; platform endpoints hear of it."""

    webhook_id: WebhookId
    reason: Literal["failing", "gone"]


class WebhookTest(Told):
    """Somebody asked for a test of an endpoint."""

    message: Literal["hello"]


DATA: Final[dict[str, type[BaseModel]]] = {
    "message.sent": MessageSent,
    "message.delivered": MessageDelivered,
    "message.deferred": MessageDeferred,
    "message.bounced": MessageBounced,
    "message.complained": MessageComplained,
    "message.rejected": MessageRejected,
    "message.failed": MessageFailed,
    "message.uncertain": MessageUncertain,
    "message.reconciled": MessageReconciled,
    "message.suppressed": MessageSuppressed,
    "message.canceled": MessageNamed,
    "message.received": MessageReceived,
    "identity.created": IdentityCreated,
    "identity.updated": IdentityUpdated,
    "identity.paused": IdentityPaused,
    "identity.resumed": IdentityResumed,
    "identity.address_added": AddressTold,
    "identity.address_activated": AddressTold,
    "identity.address_retired": AddressTold,
    "identity.address_promoted": AddressPromoted,
    "suppression.created": SuppressionCreated,
    "quota.warning": QuotaWarning,
    "billing.limit_reached": BillingLimitReached,
    "tenant.policy_updated": PolicyUpdated,
    "webhook.disabled": WebhookDisabled,
    "webhook.test": WebhookTest,
}
"""The data of every type that this version raises."""


def _event_of(event_type: str, data: type[BaseModel]) -> type[BaseModel]:
    words = event_type.replace("_", ".").split(".")
    fields: dict[str, Any] = {"type": Literal[event_type], "data": data}
    return create_model(
        "".join(word.title() for word in words) + "Event",
        __base__=Envelope,
        __doc__=data.__doc__,
        **fields,
    )


EVENTS: Final = {name: _event_of(name, data) for name, data in DATA.items()}
"""The whole of each type: envelope and data."""
