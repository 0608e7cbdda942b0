"""The inbox of provider events: stored first, then acknowledged, then applied.

A row is due until its event has come to an end. What has ended is kept for 30 days, as
evidence and against repeats, then forgotten.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

import structlog
from django.conf import settings
from psycopg.types.json import Jsonb

from core import clock, metrics
from core.addresses import normalize
from core.database import execute, fetch_one
from core.errors import AddressInvalid, AddressUnsupported
from core.hashing import pseudonym
from core.ids import new_id
from core.sweeps import until_none
from delivery.events import DeliveryEvent
from delivery.models import ProviderEvent
from delivery.statuses import InboxState
from mailboxes.models import Message

LOOK_AGAIN_AFTER: Final = timedelta(seconds=30)
"""When an event that found no message is looked at again."""

LATE_AFTER: Final = timedelta(seconds=330)
"""An event that matches no message is orphaned once it is this old."""

KEPT_FOR: Final = timedelta(days=30)
PURGE_BATCH: Final = 1000

log = structlog.get_logger()


def store(events: Sequence[DeliveryEvent], *, due_at: Sequence[datetime]) -> int:
    """Store events that are due at these instants; return how many were new.

    Joins the caller's transaction, if there is one. An event that stands already, by
    source and event id, is not stored again. Addresses are stored in their one form.
    """
    if not events:
        return 0
    found = [_in_one_form(event) for event in events]
    return execute(
        "INSERT INTO provider_events"
        " (id, source, event_id, payload, occurred_at, due_at)"
        " SELECT * FROM unnest(%(ids)s::text[], %(sources)s::text[],"
        " %(event_ids)s::text[], %(payloads)s::jsonb[],"
        " %(occurred)s::timestamptz[], %(due)s::timestamptz[])"
        " ON CONFLICT (source, event_id) DO NOTHING",
        {
            "ids": [new_id("pev") for _ in found],
            "sources": [str(event.source) for event in found],
            "event_ids": [_plain(event.event_id) for event in found],
            "payloads": [
                Jsonb({name: _plain(value) for name, value in event.payload().items()})
                for event in found
            ],
            "occurred": [event.occurred_at for event in found],
            "due": list(due_at),
        },
    )


def pending(inbox_id: str) -> DeliveryEvent | None:
    """Return the event of a row, if it has not come to its end yet."""
    row = fetch_one(
        "SELECT source, event_id, occurred_at, payload FROM provider_events"
        " WHERE id = %(id)s AND state = 'pending'",
        {"id": inbox_id},
    )
    if row is None:
        return None
    source, event_id, occurred_at, payload = row
    return DeliveryEvent.stored(source, event_id, occurred_at, json.loads(payload))


def is_still_pending(inbox_id: str) -> bool:
    """Lock a row, and tell whether nobody else has ended it; joins the caller's."""
    row = fetch_one(
        "SELECT 1 FROM provider_events WHERE id = %(id)s AND state = 'pending'"
        " FOR NO KEY UPDATE",
        {"id": inbox_id},
    )
    return row is not None


def end(
    inbox_id: str,
    event: DeliveryEvent,
    state: InboxState,
    message: Message | None = None,
) -> InboxState:
    """Write what became of a pending event, and count it; joins the caller's."""
    ended = execute(
        "UPDATE provider_events SET state = %(state)s, due_at = NULL, rung_at = NULL,"
        " message_pk = %(message)s WHERE id = %(id)s AND state = 'pending'",
        {"state": str(state), "message": message and message.key, "id": inbox_id},
    )
    if ended:
        metrics.count(metrics.DELIVERY_EVENTS, str(event.source), str(event.kind))
        match state:
            case InboxState.ORPHANED:
                metrics.count(metrics.DELIVERY_ORPHANED)
                _log("event_orphaned", inbox_id, event)
            case InboxState.UNROUTABLE:
                metrics.count(metrics.DELIVERY_UNROUTABLE)
                _log("event_unroutable", inbox_id, event)
    return state


def look_again_after(times: int = 0) -> timedelta:
    """Return how long an event waits that was put off so often: 30 s, then doubled.

    ``PM_BACKOFF_SCALE`` shortens it, as it does every wait of a send.
    """
    scale: float = settings.PM_BACKOFF_SCALE * 2 ** min(times, 10)
    return LOOK_AGAIN_AFTER * scale


def put_off(inbox_id: str, *, now: datetime) -> InboxState:
    """Let a pending event be looked at again in 30 s; joins the caller's."""
    row = ProviderEvent.objects.get(id=inbox_id)
    row.due_at = now + look_again_after()
    row.attempts += 1
    row.rung_at = None
    row.save(update_fields=["due_at", "rung_at", "attempts"])
    return InboxState.PENDING


def not_found(inbox_id: str, event: DeliveryEvent, *, now: datetime) -> InboxState:
    """Put off an event that found no message, or give it up; joins the caller's.

    Its age decides, not how often it was looked at (the page, "Delivery consumer").
    """
    if now - event.occurred_at < LATE_AFTER:
        return put_off(inbox_id, now=now)
    return end(inbox_id, event, InboxState.ORPHANED)


def purge_events() -> int:
    """Delete events that came to their end and are 30 days old; return how many.

    Bounded statements, each its own transaction.
    """
    return until_none(
        "DELETE FROM provider_events WHERE id = ANY (ARRAY("
        " SELECT id FROM provider_events WHERE due_at IS NULL"
        " AND received_at <= clock_timestamp() + %(offset)s - %(kept)s"
        " ORDER BY received_at LIMIT %(batch)s FOR UPDATE SKIP LOCKED))",
        {"offset": clock.offset, "kept": KEPT_FOR, "batch": PURGE_BATCH},
    )


def _in_one_form(event: DeliveryEvent) -> DeliveryEvent:
    return replace(
        event, sender=_address(event.sender), recipient=_address(event.recipient)
    )


def _address(raw: str) -> str:
    """Return an address as ours are stored; what is none stays, and matches nothing."""
    try:
        return normalize(raw)
    except (AddressInvalid, AddressUnsupported):
        return raw


def _plain(value: Any) -> Any:
    """Return a text as PostgreSQL can hold it: a provider's words are only data."""
    if not isinstance(value, str):
        return value
    return value.replace("\x00", "").encode("utf-8", "replace").decode()


def _log(what: str, inbox_id: str, event: DeliveryEvent) -> None:
    """Say it with hashes: neither address nor provider's id goes into a log."""
    named = event.provider_message_id or event.event_id
    log.info(
        what,
        event_id=inbox_id,
        transport=str(event.source),
        address_ph=pseudonym(event.recipient),
        detail=pseudonym(named),
    )
