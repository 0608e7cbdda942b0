"""What happened to a message, oldest first: calls, providers, events, people."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from delivery.models import Attempt, ProviderEvent
from delivery.statuses import AttemptPhase
from mailboxes.models import AuditRow, Event, Message, told_message
from outbound.models import LedgerEntry

MOST: Final = 200
"""Rows of one kind that a page shows; the newest, where there are more."""
REACHED: Final = {
    AttemptPhase.CONNECTING: "connecting: no octet of the message had left",
    AttemptPhase.SENDING: "sending: the final dot had not been written",
    AttemptPhase.AWAITING_REPLY: "the final dot was written, no reply had come",
    AttemptPhase.ANSWERED: "answered",
    AttemptPhase.WORKER_LOST: "the worker was lost before it could say",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the timeline: when, who says so, what, and the words behind it."""

    at: datetime
    source: str
    what: str
    detail: str = ""


def timeline(message: Message) -> list[Entry]:
    """Return all that is known of a message, oldest first."""
    entries = [
        *_accepted(message),
        *_calls(message),
        *_said_by_providers(message),
        *_told(message),
        *_done(message),
    ]
    return sorted(entries, key=lambda entry: entry.at)


def _accepted(message: Message) -> Iterator[Entry]:
    entry = LedgerEntry.objects.filter(message_id=message.public_id).first()
    key = f"key's hash {entry.key_hash[:16]}…" if entry else ""
    what = "accepted" if message.operation else "received"
    yield Entry(message.received_at, "API", what, key)


def _calls(message: Message) -> Iterator[Entry]:
    for row in Attempt.objects.filter(message=message).order_by("-n")[:MOST]:
        through = f"attempt {row.n} through {row.provider}"
        yield Entry(row.claimed_at, "worker", f"{through} began", row.from_address)
        if row.finished_at is None:
            continue
        reached = REACHED.get(AttemptPhase(row.phase), row.phase)
        words = (row.code, reached, row.detail)
        ended = f"{through} ended: {row.result}"
        yield Entry(row.finished_at, "worker", ended, _joined(*words))


def _said_by_providers(message: Message) -> Iterator[Entry]:
    rows = ProviderEvent.objects.filter(message=message).order_by("-received_at")
    for row in rows[:MOST]:
        said = row.payload
        what = f"{said.get('kind', 'event')} for {said.get('recipient', 'somebody')}"
        words = (
            f"{row.state}, from {row.source}",
            said.get("smtp_code"),
            said.get("smtp_response"),
        )
        yield Entry(row.received_at, "provider", what, _joined(*words))


def _told(message: Message) -> Iterator[Entry]:
    rows = (
        Event.objects.filter(identity_id=message.identity_id)
        .annotate(told_message=told_message())
        .filter(told_message=message.public_id)
        .order_by("-occurred_at", "-seq")
    )
    for row in rows[:MOST]:
        data = row.payload.get("data", {})
        words = (data.get("recipient"), data.get("reason"), f"sequence {row.seq}")
        yield Entry(row.occurred_at, "event", row.type, _joined(*words))


def _done(message: Message) -> Iterator[Entry]:
    rows = AuditRow.objects.filter(target_id=message.public_id)
    for row in rows.order_by("-created_at")[:MOST]:
        details = row.details or {}
        words = (details.get(name) for name in ("outcome", "reason", "note"))
        actor = f"user {row.actor_user_id}" if row.actor_user_id else row.actor_key_id
        who = actor or "the system"
        yield Entry(row.created_at, who, row.action, _joined(*words))


def _joined(*words: object) -> str:
    return " · ".join(str(word) for word in dict.fromkeys(words) if word)
