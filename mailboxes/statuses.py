"""The states of tenants, identities, addresses and messages, as the API shows them."""

from django.db.models import TextChoices


class TenantMode(TextChoices):
    """A test tenant reaches nobody outside this deployment."""

    LIVE = "live"
    TEST = "test"


class TenantStatus(TextChoices):
    """Whether a tenant may send."""

    ACTIVE = "active"
    SUSPENDED = "suspended"


class IdentityStatus(TextChoices):
    """Whether an identity may send; ``deleted`` is final."""

    ACTIVE = "active"
    PAUSED = "paused"
    DELETING = "deleting"
    DELETED = "deleted"


class PauseReason(TextChoices):
    """Who paused an identity, which decides who may resume it."""

    MANUAL = "manual"
    ABUSE_THRESHOLD = "abuse_threshold"
    TENANT_SUSPENDED = "tenant_suspended"


class AddressRole(TextChoices):
    """Each identity has one primary address; the others are aliases."""

    PRIMARY = "primary"
    ALIAS = "alias"


class AddressStatus(TextChoices):
    """Only an active address starts a thread; ``retired`` is final."""

    PENDING = "pending"
    ACTIVE = "active"
    RETIRING = "retiring"
    RETIRED = "retired"


class TombstoneReason(TextChoices):
    """Why an address is gone for good."""

    DELETED = "deleted"
    ERASED = "erased"


class KeyLevel(TextChoices):
    """How far an API key reaches."""

    PLATFORM = "platform"
    TENANT = "tenant"
    IDENTITY = "identity"


class Direction(TextChoices):
    """Which way a message went."""

    INBOUND = "inbound"
    OUTBOUND = "outbound"


class MessageStatus(TextChoices):
    """What became of a message (REST contract, section 2.6)."""

    QUEUED = "queued"
    SUBMITTED = "submitted"
    DELIVERED = "delivered"
    DEFERRED = "deferred"
    BOUNCED = "bounced"
    COMPLAINED = "complained"
    REJECTED = "rejected"
    FAILED = "failed"
    UNCERTAIN = "uncertain"
    SUPPRESSED = "suppressed"
    CANCELED = "canceled"
    RECEIVED = "received"
    QUARANTINED = "quarantined"
    THROTTLED = "throttled"
    HIDDEN = "hidden"


INBOUND_STATUSES = frozenset(
    {
        MessageStatus.RECEIVED,
        MessageStatus.QUARANTINED,
        MessageStatus.THROTTLED,
        MessageStatus.HIDDEN,
    }
)
OUTBOUND_STATUSES = frozenset(MessageStatus) - INBOUND_STATUSES
UNSEEN = INBOUND_STATUSES - {MessageStatus.RECEIVED}
"""Mail that nobody is shown: for every reader it is not there (mailboxes, 3.4)."""


class MessageKind(TextChoices):
    """What a message is for (outbound), or looks like (inbound)."""

    TRANSACTIONAL = "transactional"
    MARKETING = "marketing"
    AUTO_REPLY = "auto_reply"
    NORMAL = "normal"
    AUTOMATED = "automated"
    DSN = "dsn"
    MDN = "mdn"
    LIST = "list"
    CALENDAR = "calendar"


OUTBOUND_KINDS = frozenset(
    {MessageKind.TRANSACTIONAL, MessageKind.MARKETING, MessageKind.AUTO_REPLY}
)
INBOUND_KINDS = frozenset(MessageKind) - OUTBOUND_KINDS


class Provider(TextChoices):
    """The transport that carried a message."""

    CLOUDFLARE = "cloudflare"
    SES = "ses"
    SMTP = "smtp"
    SIMULATOR = "simulator"
    LOOPBACK = "loopback"


class Operation(TextChoices):
    """What the caller asked for."""

    SEND = "send"
    REPLY = "reply"
    REPLY_ALL = "reply_all"
    FORWARD = "forward"


class Evidence(TextChoices):
    """What settled an uncertain send."""

    PROVIDER_ID = "provider_id"
    TAG = "tag"
    MATCH = "match"
    PERSON = "person"
    LATE_OUTCOME = "late_outcome"


class Severity(TextChoices):
    """Whether an alert wakes somebody up."""

    PAGE = "page"
    TICKET = "ticket"


class KeyPurpose(TextChoices):
    """What a key signs; one secret, one purpose."""

    THREAD = "thread"
    LINK = "link"
    CURSOR = "cursor"


class EventOwner(TextChoices):
    """Whose sequence an event counts in."""

    MAILBOX = "mailbox"
    DOMAIN = "domain"
    JOB = "job"
    PLATFORM = "platform"
