"""Finding the message that a provider event belongs to.

By our own id, where the event carries it, else by the provider's. Failing that, by
likeness: sender, recipient and subject, when exactly one message could be meant
(architecture, section 5).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from core import metrics
from core.database import execute, fetch_all, fetch_one
from delivery.events import DeliveryEvent
from mailboxes.models import Message
from mailboxes.statuses import Evidence

BEFORE = timedelta(minutes=30)
AFTER = timedelta(minutes=5)
"""An event may come this long after, or before, the send became uncertain."""


@dataclass(frozen=True, slots=True)
class Match:
    """The message an event belongs to, and how it was found."""

    message_id: str
    evidence: Evidence


def find(identity_id: str, event: DeliveryEvent) -> Match | None:
    """Return the message that an event belongs to, if that is certain.

    Joins the caller's transaction, which holds the mailbox row. An event with our tag
    never goes by likeness.
    """
    if event.tag is None:
        return _by_provider_id(identity_id, event) or _by_likeness(identity_id, event)
    return _by_tag(identity_id, event.tag) or _by_provider_id(identity_id, event)


def learn_id(message: Message, event: DeliveryEvent) -> None:
    """Write the provider's id on the call that the event tells of.

    Later events, of other recipients too, then find the message by it. Joins the
    caller's transaction, which holds the message.
    """
    execute(
        "UPDATE attempts SET provider_message_id = %(provider_id)s"
        " WHERE message_pk = %(message)s AND n = (SELECT max(n) FROM attempts"
        " WHERE message_pk = %(message)s AND provider_message_id IS NULL"
        " AND from_address = %(sender)s AND %(recipient)s = ANY(recipients)"
        " AND (result IS NULL OR result IN ('uncertain', 'accepted')))",
        {
            "provider_id": event.provider_message_id,
            "message": message.key,
            "sender": event.sender,
            "recipient": event.recipient,
        },
    )


def _by_tag(identity_id: str, tag: str) -> Match | None:
    """Return the message that the event itself names."""
    row = fetch_one(
        "SELECT 1 FROM messages WHERE identity_id = %(identity)s AND id = %(tag)s"
        " AND direction = 'outbound'",
        {"identity": identity_id, "tag": tag},
    )
    return Match(tag, Evidence.TAG) if row else None


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
    return Match(row[0], Evidence.PROVIDER_ID) if row else None


def _by_likeness(identity_id: str, event: DeliveryEvent) -> Match | None:
    """Return the one like message that waits for an event, if no other could be meant.

    It is in doubt, or its provider took it and gave no id. A message in flight, or one
    that a person has resolved, is a further candidate: the event of a like message,
    overtaking its record, would else settle the lost one.
    """
    if event.subject is None:
        return None
    rows = fetch_all(
        "SELECT m.id, bool_or(d.status = 'uncertain'"
        " OR (a.result = 'accepted' AND d.status = 'submitted')) AS waits"
        " FROM messages m JOIN attempts a ON a.message_pk = m.pk"
        " JOIN deliveries d ON d.message_pk = m.pk AND d.address = %(recipient)s"
        " WHERE m.identity_id = %(identity)s AND m.direction = 'outbound'"
        " AND m.subject = %(subject)s AND a.from_address = %(sender)s"
        " AND a.provider_message_id IS NULL AND %(recipient)s = ANY(a.recipients)"
        " AND (a.result IS NULL OR a.result IN ('uncertain', 'accepted'))"
        " AND (a.claimed_at BETWEEN %(earliest)s AND %(latest)s"
        " OR d.updated_at BETWEEN %(earliest)s AND %(latest)s)"
        " GROUP BY m.id ORDER BY waits DESC LIMIT 2",
        {
            "identity": identity_id,
            "sender": event.sender,
            "recipient": event.recipient,
            "subject": event.subject,
            "earliest": event.occurred_at - BEFORE,
            "latest": event.occurred_at + AFTER,
        },
    )
    if not rows or not rows[0][1]:
        return None
    if len(rows) > 1:
        metrics.count(metrics.RECONCILE_AMBIGUOUS)
        return None
    return Match(rows[0][0], Evidence.MATCH)


def look_again_at_orphans(
    message: Message, recipients: Sequence[str], *, claimed_at: datetime, now: datetime
) -> int:
    """Make orphaned events that may belong to a message due again.

    Called when it becomes uncertain, in that transaction: an event that came while the
    worker was dying still settles it. The sender is that of the calls, which a fallback
    makes another than the message's own.
    """
    return execute(
        "UPDATE provider_events SET state = 'pending', due_at = %(now)s"
        " WHERE state = 'orphaned' AND payload->>'recipient' = ANY(%(recipients)s)"
        " AND payload->>'sender' IN (SELECT from_address FROM attempts"
        " WHERE message_pk = %(message)s"
        " AND (result IS NULL OR result = 'uncertain'))"
        " AND payload->>'subject' = %(subject)s"
        " AND occurred_at BETWEEN %(earliest)s AND %(latest)s",
        {
            "now": now,
            "message": message.key,
            "recipients": list(recipients),
            "subject": message.subject,
            "earliest": claimed_at - AFTER,
            "latest": now + BEFORE,
        },
    )
