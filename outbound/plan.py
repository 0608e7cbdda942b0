"""Pure values of the submit path: facts in, a plan out. Nothing here decides."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from delivery.statuses import RecipientField
from domains.statuses import DomainState, Transport
from mailboxes.statuses import (
    AddressRole,
    AddressStatus,
    IdentityStatus,
    MessageKind,
    Operation,
    TenantMode,
    TenantStatus,
)
from outbound.mime import Attachment
from outbound.words import cut_utf8

TEXT_LIMIT, EXTRACTED_LIMIT = 512 * 1024, 256 * 1024
"""Bytes of a text that its row keeps, and that the API shows."""


@dataclass(frozen=True, slots=True)
class OwnAddress:
    """An address of the identity that is not retired, and its domain's state."""

    address: str
    role: AddressRole
    status: AddressStatus
    domain_state: DomainState
    transport: Transport


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
    addresses: tuple[OwnAddress, ...]
    now: datetime


@dataclass(frozen=True, slots=True)
class PlannedRecipient:
    """One recipient, normalised; it becomes one delivery."""

    address: str
    name: str | None
    field: RecipientField


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """One attachment, decoded and cleaned, and the id that it will have."""

    id: str
    file: Attachment = field(repr=False)


@dataclass(frozen=True, slots=True)
class SendPlan:
    """Everything that is to be sent and stored, decided."""

    operation: Operation
    tenant_id: str
    identity_id: str
    message_id: str
    thread_id: str
    from_address: str
    from_name: str
    recipients: tuple[PlannedRecipient, ...]
    subject: str
    text: str = field(repr=False)
    html: str | None = field(repr=False)
    headers: tuple[tuple[str, str], ...]
    files: tuple[PlannedFile, ...]
    labels: tuple[str, ...]
    metadata: Mapping[str, str]
    kind: MessageKind
    now: datetime

    @property
    def stored_text(self) -> str:
        """Return the text as its row keeps it; all of it stands in the sent copy."""
        return _cut(self.text, TEXT_LIMIT)

    @property
    def extracted_text(self) -> str:
        """Return the text as the API shows it."""
        return _cut(self.text, EXTRACTED_LIMIT)

    @property
    def flags(self) -> tuple[str, ...]:
        """Return what readers should know of the message."""
        is_whole = self.extracted_text == self.text
        return () if is_whole else ("body_truncated",)

    @property
    def units(self) -> int:
        """Return how many units of the allowance the send may use."""
        return len(self.recipients)

    def in_field(self, wanted: RecipientField) -> tuple[PlannedRecipient, ...]:
        """Return the recipients of one field, in the caller's order."""
        return tuple(r for r in self.recipients if r.field == wanted)


def _cut(text: str, limit: int) -> str:
    return cut_utf8(text.encode(), limit).decode()
