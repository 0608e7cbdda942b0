"""The outbox: committed events get their place in the feed, and are fanned out.

An event is stored with the change it tells of, and that transaction may commit late. So
its place is given afterwards, by one writer at a time: whoever sees a place in the feed
sees every lower one (architecture section 5).
"""

from dataclasses import dataclass
from typing import Any, Final, LiteralString

from django.db import transaction

from core import clock
from core.database import execute, fetch_one
from webhooks.catalogue import EVERYTHING, PLATFORM_ONLY, TEST

BATCH: Final = 100
"""Events of one transaction: each may go to forty endpoints, and mail waits for it."""

JUMP: Final = 1_000_000_000
"""How far numbers jump after a restore: past whatever was given out and is lost."""


@dataclass(frozen=True, slots=True)
class Numbered:
    """How many events got their place, and how many dispatches they gave."""

    events: int = 0
    dispatches: int = 0

    @property
    def is_full(self) -> bool:
        """Tell whether more may be waiting."""
        return self.events >= BATCH


_WAITING: Final = "SELECT EXISTS (SELECT FROM events WHERE dispatched_at IS NULL)"
_ALONE: Final = "SELECT pg_try_advisory_xact_lock(hashtext('outbox'), 0)"
_HELD: Final = "SELECT pg_advisory_xact_lock(hashtext('outbox'), 0)"

# webhooks.matching says the same
_MATCHES: Final[LiteralString] = """
       e.disabled_reason IS NULL AND n.type <> %(test)s
   AND (%(everything)s = ANY (e.events) OR n.type = ANY (e.events))
   AND (e.identity_ids IS NULL OR n.identity_id = ANY (e.identity_ids))
   AND n.occurred_at >= date_trunc('milliseconds', e.created_at)
"""
_NUMBER: Final[LiteralString] = f"""
WITH asked AS MATERIALIZED (SELECT clock_timestamp() + %(clock_offset)s AS now),
batch AS MATERIALIZED (
  SELECT id, nextval('events_position_seq') AS position
    FROM (SELECT id FROM events WHERE dispatched_at IS NULL
           ORDER BY arrival LIMIT %(limit)s) AS oldest
), numbered AS (
  UPDATE events SET position = batch.position, dispatched_at = asked.now
    FROM batch, asked WHERE events.id = batch.id
  RETURNING events.id, type, tenant_id, identity_id, occurred_at, events.position
), told AS (
  SELECT e.id AS endpoint_id, n.id, n.type, n.position
    FROM numbered n JOIN webhook_endpoints e ON e.tenant_id = n.tenant_id
   WHERE n.type <> ALL (%(platform_only)s) AND {_MATCHES}
  UNION ALL
  SELECT e.id, n.id, n.type, n.position
    FROM numbered n JOIN webhook_endpoints e ON e.tenant_id IS NULL
   WHERE {_MATCHES}
), due AS (
  INSERT INTO webhook_dispatches (endpoint_id, event_id, event_type, due_at)
  SELECT endpoint_id, id, type, asked.now FROM told, asked ORDER BY position
  ON CONFLICT (endpoint_id, event_id) DO NOTHING  -- a replay was faster
  RETURNING 1
)
SELECT (SELECT count(*) FROM numbered), (SELECT count(*) FROM due)
"""  # noqa: S608  constants only


def number_events() -> Numbered:
    """Give the oldest committed events their places, and make their dispatches due.

    At most ``BATCH`` of them, in one transaction and one statement of it, so that a
    crash leaves all of it or nothing. An owner's events keep the order of their
    ``sequence``. Does nothing while another process is at it.
    """
    waiting = fetch_one(_WAITING)
    return _number() if waiting is not None and waiting[0] else Numbered()


@transaction.atomic(durable=True)
def _number() -> Numbered:
    alone = fetch_one(_ALONE)
    if alone is None or not alone[0]:
        return Numbered()
    # a statement of its own: it has to see what the last holder committed
    row = fetch_one(_NUMBER, {**_PARAMETERS, "clock_offset": clock.offset})
    assert row is not None  # noqa: S101  counts have one row
    return Numbered(*row)


_PARAMETERS: Final[dict[str, Any]] = {
    "limit": BATCH,
    "test": TEST,
    "everything": EVERYTHING,
    "platform_only": list(PLATFORM_ONLY),
}


def hold_outbox() -> None:
    """Let nobody number events until the caller's transaction ends.

    Who numbers meanwhile has committed by then, or begins after it.
    """
    fetch_one(_HELD)


def number_all() -> int:
    """Number until nothing is left that may be; return how many events: the alarm."""
    events = 0
    while (numbered := number_events()).events:
        events += numbered.events
    return events


_JUMP_POSITION: Final = """
SELECT setval('events_position_seq', %(jump)s + greatest(
  (SELECT last_value FROM events_position_seq),
  (SELECT coalesce(max(position), 0) FROM events)))
"""
_JUMP_SEQUENCES: Final[tuple[LiteralString, ...]] = (
    "UPDATE mailbox_state SET next_event_seq = next_event_seq + %(jump)s",
    "UPDATE tenants SET next_event_seq = next_event_seq + %(jump)s",
)


@transaction.atomic(durable=True)
def jump_ahead() -> int:
    """Let every number given out from now on be past those of a history that is lost.

    For a database that was restored to an earlier time, or failed over to a standby
    that was behind, before workers and web start. ``position`` and every ``sequence``
    jump by ``JUMP``; doing it twice is harmless. Returns the feed's new place.
    """
    hold_outbox()
    for statement in _JUMP_SEQUENCES:
        execute(statement, {"jump": JUMP})
    row = fetch_one(_JUMP_POSITION, {"jump": JUMP})
    assert row is not None  # noqa: S101  a function has a value
    return int(row[0])
