"""Pure values of the submit path: facts in, a plan out. Nothing here decides."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from core.text import cut_utf8
from delivery.statuses import DeliveryStatus, RecipientField
from domains.statuses import DomainKind, DomainState, ReplyToken, Transport
from mailboxes.recipients import AnsweredMessage, Party
from mailboxes.statuses import (
    AddressRole,
    AddressStatus,
    IdentityStatus,
    MessageKind,
    MessageStatus,
    Operation,
    TenantMode,
    TenantStatus,
)
from mailboxes.threading import ThreadIds
from outbound.body import Bodies, Original
from outbound.from_choice import ThreadSender
from outbound.mime import Attachment
from quota.caps import Caps, Counted
from quota.statuses import Feature

TEXT_LIMIT, EXTRACTED_LIMIT = 512 * 1024, 256 * 1024
"""Bytes of a text that its row keeps, and that the API shows."""


@dataclass(frozen=True, slots=True)
class OwnAddress:
    """An address of the identity in any status, and what its domain is like."""

    address: str
    role: AddressRole
    status: AddressStatus
    domain_kind: DomainKind
    domain_state: DomainState
    transport: Transport
    reply_token: ReplyToken
    is_configured: bool = True


@dataclass(frozen=True, slots=True)
class StoredFile:
    """An attachment of a stored message; its bytes are in the object store."""

    id: str
    filename: str | None
    content_type: str
    size: int
    disposition: str | None
    content_id: str | None
    object_key: str


Head = tuple[Any, ...]
"""What a thread is like for whoever goes on from it, to be compared and no more.

The keys of its newest message and of the newest that left or may leave; a digest of the
ids and hops that headers go on from; what From is chosen by: the pin, the address to
come back to, and the status of each of the mailbox's addresses.
"""


@dataclass(frozen=True, slots=True)
class ThreadFacts:
    """A thread that a send goes into.

    When its ``head`` has moved while a send waited for the lock (a message came, one
    that was on its way did not leave, or left under another id or From), the send is
    composed again. ``earlier``
    are messages that headers can name, newest first, those before the message answered.
    ``hop`` is that of its newest inbound message.
    """

    key: int
    id: str
    seq: int
    subject: str
    head: Head
    participants: tuple[Party, ...]
    sender: ThreadSender
    earlier: tuple[ThreadIds, ...]
    hop: int
    exchanges: int


@dataclass(frozen=True, slots=True)
class AnsweredFacts:
    """The message that is replied to or forwarded; ``hop`` as the next one goes on."""

    key: int
    status: MessageStatus
    kind: MessageKind
    subject: str
    message: AnsweredMessage
    ids: ThreadIds
    hop: int
    original: Original
    files: tuple[StoredFile, ...] = ()


@dataclass(frozen=True, slots=True)
class SendFacts:
    """What the policy knows: rows as they were read under the key's lock."""

    tenant_id: str
    tenant_status: TenantStatus
    tenant_mode: TenantMode
    identity_id: str
    identity_status: IdentityStatus
    pause_reason: str | None
    display_name: str
    owner_name: str | None
    owner_email: str | None
    signature_text: str | None
    signature_html: str | None
    policy: Mapping[str, Any]
    send_policy: Mapping[str, Any]
    is_system: bool
    addresses: tuple[OwnAddress, ...]
    next_thread_seq: int
    counted: Counted
    now: datetime
    thread: ThreadFacts | None = None
    answered: AnsweredFacts | None = None

    @property
    def own(self) -> frozenset[str]:
        """Return every address that is or was the identity's."""
        return frozenset(own.address for own in self.addresses)


@dataclass(frozen=True, slots=True)
class PlannedRecipient:
    """One recipient, normalised; it becomes one delivery.

    ``reason`` and ``smtp_response`` tell why one is set aside (step 16).
    """

    address: str
    name: str | None
    field: RecipientField
    reason: str | None = None
    smtp_response: str | None = None

    @property
    def status(self) -> DeliveryStatus:
        """Return how its delivery begins."""
        is_filtered = self.smtp_response is not None
        return DeliveryStatus.SUPPRESSED if is_filtered else DeliveryStatus.QUEUED


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """One attachment, decoded and cleaned, and the id that it will have.

    A linked one has left the message; its bytes are served by a signed link.
    """

    id: str
    file: Attachment = field(repr=False)
    is_linked: bool = False


@dataclass(frozen=True, slots=True)
class PlannedThread:
    """The thread of a message: a new one, or the one that ``key`` names.

    ``seq`` is set where the Reply-To names it: a new thread then has this number or is
    composed again. ``head`` is the thread's as it was known when composing.
    """

    id: str
    key: int | None
    seq: int | None
    head: Head | None
    participants: tuple[Party, ...]
    unpins: bool = False


@dataclass(frozen=True, slots=True)
class SendPlan:
    """Everything that is to be sent and stored, decided."""

    operation: Operation
    tenant_id: str
    identity_id: str
    message_id: str
    thread: PlannedThread
    from_address: str
    from_name: str
    reply_to: Party | None
    recipients: tuple[PlannedRecipient, ...]
    subject: str
    bodies: Bodies = field(repr=False)
    in_reply_to: str | None
    references: tuple[str, ...]
    headers: tuple[tuple[str, str], ...]
    files: tuple[PlannedFile, ...]
    labels: tuple[str, ...]
    metadata: Mapping[str, str]
    kind: MessageKind
    consent: Mapping[str, str] | None
    caps: Caps
    most_exchanges: int
    now: datetime

    @property
    def text(self) -> str:
        """Return the text that the message shows."""
        return self.bodies.text

    @property
    def html(self) -> str | None:
        """Return the HTML that the message shows, if it has any."""
        return self.bodies.html

    @property
    def stored_text(self) -> str:
        """Return the text that the row keeps; the whole stands in the sent copy."""
        return _cut(self.text, TEXT_LIMIT)

    @property
    def extracted_text(self) -> str:
        """Return the text that the API shows."""
        return _cut(self.text, EXTRACTED_LIMIT)

    @property
    def flags(self) -> tuple[str, ...]:
        """Return what is to be told of the message itself."""
        return ("body_truncated",) if self.extracted_text != self.text else ()

    @property
    def remaining(self) -> tuple[PlannedRecipient, ...]:
        """Return the recipients that are not set aside."""
        return tuple(r for r in self.recipients if r.status == DeliveryStatus.QUEUED)

    @property
    def status(self) -> MessageStatus:
        """Return how the message begins."""
        return MessageStatus.QUEUED if self.remaining else MessageStatus.SUPPRESSED

    @property
    def units(self) -> int:
        """Return how many units of the allowance the send may use."""
        return len(self.remaining)

    @property
    def gates(self) -> tuple[Feature, ...]:
        """Return what must not be overdrawn: files take room in the store."""
        return (Feature.STORAGE_GB,) if self.files else ()

    def in_field(self, wanted: RecipientField) -> tuple[PlannedRecipient, ...]:
        """Return the recipients of one field, in the caller's order."""
        return tuple(r for r in self.recipients if r.field == wanted)


def _cut(text: str, limit: int) -> str:
    return cut_utf8(text.encode(), limit).decode()
