"""A client of the Pylota mail API: one logical send, one key, never a second email."""

from pylota_client.bodies import Address, Attachment
from pylota_client.client import Client
from pylota_client.clock import Clock
from pylota_client.errors import (
    BillingLimit,
    CursorExpired,
    DailyCapReached,
    DomainNotReady,
    FieldError,
    IdempotencyConflict,
    IdentityPaused,
    InvalidRequest,
    NoAnswer,
    NotFound,
    PermissionDenied,
    PylotaError,
    RateLimited,
    RequestInProgress,
    ServerFault,
    TenantSuspended,
    ThreadBusy,
    Unauthenticated,
    UnexpectedAnswer,
    WaitTimedOut,
)
from pylota_client.identity import Identity
from pylota_client.messages import (
    SENT,
    SETTLED,
    Delivery,
    Message,
    StoredAttachment,
)
from pylota_client.results import Accepted, DryRun, DryRunRecipient, Event
from pylota_client.version import __version__

__all__ = [
    "SENT",
    "SETTLED",
    "Accepted",
    "Address",
    "Attachment",
    "BillingLimit",
    "Client",
    "Clock",
    "CursorExpired",
    "DailyCapReached",
    "Delivery",
    "DomainNotReady",
    "DryRun",
    "DryRunRecipient",
    "Event",
    "FieldError",
    "IdempotencyConflict",
    "Identity",
    "IdentityPaused",
    "InvalidRequest",
    "Message",
    "NoAnswer",
    "NotFound",
    "PermissionDenied",
    "PylotaError",
    "RateLimited",
    "RequestInProgress",
    "ServerFault",
    "StoredAttachment",
    "TenantSuspended",
    "ThreadBusy",
    "Unauthenticated",
    "UnexpectedAnswer",
    "WaitTimedOut",
    "__version__",
]
