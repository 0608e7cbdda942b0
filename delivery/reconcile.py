"""Finding the message that a provider event belongs to.

By our own id, where the event carries it, else by the provider's. Failing that, by
likeness: sender, recipient and subject, when exactly one message could be meant
(architecture, section 5).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from core.database import execute, fetch_all, fetch_one
from delivery.events import DeliveryEvent
from delivery.statuses import DeliveryStatus
from mailboxes.models import Message
from mailboxes.statuses import Evidence

BEFORE = timedelta(minutes=30)
AFTER = timedelta(minutes=5)
"""An event may come this long after, or before, the send became uncertain."""


@dataclass(frozen=True, slots=True)
class Match:
    """The message an event belongs to; with evidence, when that settles a doubt."""

    message_id: str
    evidence: Evidence | None = None


def find(identity_id: str, event: DeliveryEvent) -> Match | None:
    """Return the message that an event belongs to, if that is certain.

    Joins the caller's transaction, which holds the mailbox row.
    """
    if event.tag is not None:
        return _by_tag(identity_id, event.tag)
    return _by_provider_id(identity_id, event) or _by_likeness(identity_id, event)


def _by_tag(identity_id: str, tag: str) -> Match | None:
    """Return the message that the event itself names; never another one."""
    own = Message.objects.filter(identity_id=identity_id, public_id=tag)
    return Match(tag) if own.exists() else None


def _by_provider_id(identity_id: str, event: DeliveryEvent) -> Match | None:
    if event.provider_message_id is None:
        return None
    row = fetch_one(
        "SELECT m.id FROM messages m WHERE m.identity_id = %(identity)s"
        " AND m.direction = 'outbound' AND m.provider_message_id = %(provider_id)s"
        " UNION SELECT m.id FROM attempts a JOIN messages m ON m.pk = a.message_pk"
        " WHERE a.provider_message_id = %(provider_id)s"
        " AND m.identity_id = %(identity)s"
        " ORDER BY 1 DESC LIMIT 1",
        {"identity": identity_id, "provider_id": event.provider_message_id},
    )
    return Match(row[0]) if row else None


def _by_likeness(identity_id: str, event: DeliveryEvent) -> Match | None:
    """Return the one like message that is uncertain, if no other could be meant.

    A message in flight, or one that a person has resolved, is a further candidate: the
    event of a like message, overtaking its record, would else settle the lost one.
    """
    if event.subject is None:
        return None
    rows = fetch_all(
        "SELECT DISTINCT m.id, d.status FROM messages m"
        " JOIN attempts a ON a.message_pk = m.pk"
        " JOIN deliveries d ON d.message_pk = m.pk AND d.address = %(recipient)s"
        " WHERE m.identity_id = %(identity)s AND m.direction = 'outbound'"
        " AND m.provider_message_id IS NULL AND a.from_address = %(sender)s"
        " AND m.subject = %(subject)s"
        " AND (a.result IS NULL OR a.result = 'uncertain')"
        " AND (a.claimed_at BETWEEN %(earliest)s AND %(latest)s"
        " OR d.updated_at BETWEEN %(earliest)s AND %(latest)s) LIMIT 2",
        {
            "identity": identity_id,
            "sender": event.sender,
            "recipient": event.recipient,
            "subject": event.subject,
            "earliest": event.occurred_at - BEFORE,
            "latest": event.occurred_at + AFTER,
        },
    )
    if len(rows) == 1 and rows[0][1] == DeliveryStatus.UNCERTAIN:
        return Match(rows[0][0], Evidence.MATCH)
    return None


def look_again_at_orphans(
    message: Message, recipients: Sequence[str], *, claimed_at: datetime, now: datetime
) -> int:
    """Make orphaned events that may belong to a message due again.

    Called when it becomes uncertain, in that transaction: an event that came while the
    worker was dying still settles it.
    """
    return execute(
        "UPDATE provider_events SET state = 'pending', due_at = %(now)s"
        " WHERE state = 'orphaned' AND payload->>'sender' = %(sender)s"
        " AND payload->>'recipient' = ANY(%(recipients)s)"
        " AND payload->>'subject' = %(subject)s"
        " AND occurred_at BETWEEN %(earliest)s AND %(latest)s",
        {
            "now": now,
            "sender": message.from_address,
            "recipients": list(recipients),
            "subject": message.subject,
            "earliest": claimed_at - AFTER,
            "latest": now + BEFORE,
        },
    )
