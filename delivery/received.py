"""What providers posted, kept as it came for a person to read.

Sealed, because an event of SES holds addresses, the subject and headers of the mail.
The body and what it says are stored by one transaction, before it is acknowledged.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from django.db import transaction

from core import clock
from core.database import execute
from core.sealing import Place, sealer
from core.sweeps import until_none
from delivery import inbox
from delivery.events import DeliveryEvent
from delivery.statuses import EventSource

KEPT_FOR: Final = timedelta(days=30)
BATCH: Final = 1000


@transaction.atomic(durable=True)
def receive(
    source: EventSource,
    posted_id: str,
    body: bytes,
    events: Sequence[DeliveryEvent],
    *,
    now: datetime,
) -> int:
    """Store what was posted and the events in it, all due now; return how many are new.

    The same ``posted_id`` again stores neither a second time.
    """
    keep_body(source, posted_id, body, now=now)
    return inbox.store(events, due_at=[now] * len(events))


def keep_body(
    source: EventSource, posted_id: str, body: bytes, *, now: datetime
) -> None:
    """Store a body as it came, sealed, unless it stands already under its id.

    Joins the caller's transaction.
    """
    execute(
        "INSERT INTO received_bodies (source, posted_id, sealed, received_at)"
        " VALUES (%(source)s, %(posted_id)s, %(sealed)s, %(now)s)"
        " ON CONFLICT (source, posted_id) DO NOTHING",
        {
            "source": str(source),
            "posted_id": posted_id,
            "sealed": sealer().seal(body, place=_place(source, posted_id)),
            "now": now,
        },
    )


def opened(source: str, posted_id: str, sealed: str) -> bytes:
    """Return the body of a row; raises SealBroken."""
    return sealer().open(sealed, place=_place(source, posted_id))


def purge_bodies() -> int:
    """Delete bodies that are 30 days old; return how many.

    Bounded statements, each its own transaction.
    """
    return until_none(
        "DELETE FROM received_bodies WHERE id = ANY (ARRAY("
        " SELECT id FROM received_bodies"
        " WHERE received_at <= clock_timestamp() + %(offset)s - %(kept)s"
        " ORDER BY received_at LIMIT %(batch)s FOR UPDATE SKIP LOCKED))",
        {"offset": clock.offset, "kept": KEPT_FOR, "batch": BATCH},
    )


def _place(source: str, posted_id: str) -> Place:
    return Place("received_bodies", "sealed", f"{source}:{posted_id}")
