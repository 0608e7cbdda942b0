"""The rows of mailboxes, by what they are for."""

from mailboxes.models.mail import Attachment, Contact, Label, Message, Thread
from mailboxes.models.records import (
    Alert,
    AuditRow,
    Event,
    IdempotencyRecord,
    told_message,
)
from mailboxes.models.tenancy import (
    Address,
    AddressTombstone,
    ApiKey,
    Identity,
    Mailbox,
    SigningKey,
    Tenant,
    tenant_column,
)

__all__ = [
    "Address",
    "AddressTombstone",
    "Alert",
    "ApiKey",
    "Attachment",
    "AuditRow",
    "Contact",
    "Event",
    "IdempotencyRecord",
    "Identity",
    "Label",
    "Mailbox",
    "Message",
    "SigningKey",
    "Tenant",
    "Thread",
    "tenant_column",
    "told_message",
]
