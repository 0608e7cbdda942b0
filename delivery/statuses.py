"""What became of each recipient: states, what providers say, and one table."""

from collections.abc import Mapping
from typing import Final

from django.db.models import TextChoices


class DeliveryStatus(TextChoices):
    """The state of one recipient of one message (REST contract, section 2.7)."""

    QUEUED = "queued"
    SUPPRESSED = "suppressed"
    SUBMITTED = "submitted"
    DELIVERED = "delivered"
    DEFERRED = "deferred"
    BOUNCED = "bounced"
    COMPLAINED = "complained"
    REJECTED = "rejected"
    FAILED = "failed"
    UNCERTAIN = "uncertain"


class DeliveryKind(TextChoices):
    """What a provider can say of one recipient."""

    DELIVERED = "delivered"
    DEFERRED = "deferred"
    BOUNCED = "bounced"
    FAILED = "failed"
    REJECTED = "rejected"
    COMPLAINED = "complained"
    SENT = "sent"


D, E = DeliveryStatus, DeliveryKind

OPEN: Final = frozenset({D.QUEUED, D.SUBMITTED, D.UNCERTAIN, D.DEFERRED})
"""States that any event may still move."""

ACCEPTED: Final = frozenset(
    {D.SUBMITTED, D.DELIVERED, D.DEFERRED, D.BOUNCED, D.COMPLAINED}
)
"""States in which a transport has taken the message: each charges its unit once."""

RESULT_OF: Final[Mapping[DeliveryKind, DeliveryStatus]] = {
    kind: DeliveryStatus(kind.value) for kind in DeliveryKind if kind != E.SENT
}
"""What a word makes of a delivery; that a mail was taken moves none."""

TRANSITIONS: Final[Mapping[tuple[DeliveryStatus, DeliveryKind], DeliveryStatus]] = {
    **{(status, kind): RESULT_OF[kind] for status in OPEN for kind in RESULT_OF},
    (D.DELIVERED, E.BOUNCED): D.BOUNCED,  # a late bounce can follow a delivery
    (D.DELIVERED, E.COMPLAINED): D.COMPLAINED,
    (D.BOUNCED, E.BOUNCED): D.BOUNCED,  # details updated
    (D.BOUNCED, E.COMPLAINED): D.COMPLAINED,
}
"""Every transition that applies; what is not listed is stale, and changes nothing."""


class RecipientField(TextChoices):
    """Which header named the recipient (none, for bcc)."""

    TO = "to"
    CC = "cc"
    BCC = "bcc"


class AttemptPhase(TextChoices):
    """How far the call got."""

    CONNECTING = "connecting"
    SENDING = "sending"
    AWAITING_REPLY = "awaiting_reply"
    ANSWERED = "answered"
    WORKER_LOST = "worker_lost"


class AttemptResult(TextChoices):
    """How the call ended."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    RETRY = "retry"
    UNCERTAIN = "uncertain"


class EventSource(TextChoices):
    """Who said it."""

    CLOUDFLARE = "cloudflare"
    SES = "ses"
    SIMULATOR = "simulator"
    LOOPBACK = "loopback"
    DSN = "dsn"


class InboxState(TextChoices):
    """What became of it.

    ``duplicate`` also is what tells of somebody whom the message did not go to;
    ``refused`` what may change nothing: the journal's copy, or a contradiction of what
    a person has said, which is kept as evidence.
    """

    PENDING = "pending"
    APPLIED = "applied"
    DUPLICATE = "duplicate"
    ORPHANED = "orphaned"
    UNROUTABLE = "unroutable"
    REFUSED = "refused"
