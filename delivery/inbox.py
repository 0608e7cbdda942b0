"""The inbox of provider events: stored first, then acknowledged, then applied."""

from collections.abc import Sequence
from datetime import datetime

from psycopg.types.json import Jsonb

from core.database import execute
from core.ids import new_id
from delivery.events import DeliveryEvent


def store(events: Sequence[DeliveryEvent], *, due_at: Sequence[datetime]) -> int:
    """Store events that are due at these instants; return how many were new.

    Joins the caller's transaction, if there is one. An event that stands already, by
    source and event id, is not stored again.
    """
    if not events:
        return 0
    return execute(
        "INSERT INTO provider_events"
        " (id, source, event_id, payload, occurred_at, due_at)"
        " SELECT * FROM unnest(%(ids)s::text[], %(sources)s::text[],"
        " %(event_ids)s::text[], %(payloads)s::jsonb[],"
        " %(occurred)s::timestamptz[], %(due)s::timestamptz[])"
        " ON CONFLICT (source, event_id) DO NOTHING",
        {
            "ids": [new_id("pev") for _ in events],
            "sources": [str(event.source) for event in events],
            "event_ids": [event.event_id for event in events],
            "payloads": [Jsonb(event.payload()) for event in events],
            "occurred": [event.occurred_at for event in events],
            "due": list(due_at),
        },
    )
