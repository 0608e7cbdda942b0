"""The queue is a column: take what is due, move it on, tell a worker.

The row stays the queue. A ring that is lost, late or doubled costs nothing: the row is
due again after ``PM_REDISPATCH_SECONDS``, and its claim admits one call.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, LiteralString

from celery import current_app
from django.conf import settings
from django.db import transaction

from core import clock
from core.database import execute, fetch_all, fetch_one

BATCH: Final = 100
"""Rows taken by one transaction: new ones, and as many that are rung again."""

SHARE: Final = 50
"""Rows rung and unclaimed of one owner, in a queue whose rows have owners."""

GIVE_BACK_SECONDS: Final = 5.0
"""When a row is due again whose ring failed, or that no slot was free for."""


class BrokerAway(Exception):
    """The broker did not take a ring; what was not rung is due again in 5 s."""


@dataclass(frozen=True, slots=True)
class DueQueue:
    """A table with a due column, and the task that a due row is handed to.

    ``public_id`` is the SQL of the id that the task is given. With an ``owner`` at most
    ``SHARE`` rows of each are rung and unclaimed, whoever's backlog is how long.
    """

    queue: str
    task: str
    table: LiteralString
    key: LiteralString
    due: LiteralString
    public_id: LiteralString
    owner: LiteralString | None = None

    def sql(self, statement: LiteralString) -> LiteralString:
        """Return the statement with this queue's names filled in."""
        return statement.format(
            table=self.table,
            key=self.key,
            due=self.due,
            public_id=self.public_id,
            owner=self.owner or self.key,
        )


MESSAGES: Final = DueQueue(
    queue="outbound",
    task="outbound.deliver_message",
    table="outbound_state",
    key="message_pk",
    due="dispatch_at",
    public_id="(SELECT id FROM messages WHERE pk = due_row.message_pk)",
)
PROVIDER_EVENTS: Final = DueQueue(
    queue="events",
    task="delivery.apply_event",
    table="provider_events",
    key="id",
    due="due_at",
    public_id="due_row.id",
)
COPIES: Final = DueQueue(
    queue="events",
    task="inbound.receive_copy",
    table="inbound_jobs",
    key="id",
    due="due_at",
    public_id="due_row.id",
)
WEBHOOKS: Final = DueQueue(
    queue="webhooks",
    task="webhooks.deliver_event",
    table="webhook_dispatches",
    key="id",
    due="due_at",
    public_id="due_row.id::text",
    owner="endpoint_id",
)
QUEUES: Final = (MESSAGES, PROVIDER_EVENTS, COPIES, WEBHOOKS)


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows that were taken together, and the instant that marks them as taken."""

    ids: Sequence[str] = ()
    rung_at: datetime | None = None


class Closing:
    """Says that this process is ending: no ring and no claim from then on.

    A plain flag, since it is set inside a signal handler, where a lock may be held by
    the very thread that was interrupted.
    """

    is_set = False


# One dispatcher at a time counts and takes, or two of them would ring twice the limit.
# Rows that are rung and due again are rung whatever the limit: they are in the count.
_ALONE: Final[LiteralString] = (
    "SELECT pg_try_advisory_xact_lock(hashtext('dispatch'), hashtext(%(queue)s))"
)
_FRESH: Final[LiteralString] = """
    SELECT {key} FROM {table}
    WHERE rung_at IS NULL AND {due} <= (SELECT now FROM asked)
    ORDER BY {due} LIMIT least(%(limit)s, greatest(0, %(ahead)s - (
        SELECT count(*) FROM {table} WHERE rung_at IS NOT NULL AND {due} IS NOT NULL
    ))) FOR UPDATE SKIP LOCKED
"""
# Owners are found by leaps through an index, and each gets what is left of its share:
# the cost follows the number of owners, not the length of a backlog.
_FRESH_BY_OWNER: Final[LiteralString] = """
    SELECT picked.{key} FROM owners CROSS JOIN LATERAL (
        SELECT {key} FROM {table}
        WHERE {owner} = owners.id AND rung_at IS NULL
          AND {due} <= (SELECT now FROM asked)
        ORDER BY {due} LIMIT greatest(0, %(share)s - (
            SELECT count(*) FROM {table} WHERE {owner} = owners.id
               AND rung_at IS NOT NULL AND {due} IS NOT NULL
        )) FOR UPDATE SKIP LOCKED
    ) AS picked WHERE owners.id IS NOT NULL LIMIT %(limit)s
"""
_OWNERS: Final[LiteralString] = """
owners AS (
    SELECT min({owner}) AS id FROM {table} WHERE rung_at IS NULL AND {due} IS NOT NULL
    UNION ALL
    SELECT (SELECT min({owner}) FROM {table}
             WHERE rung_at IS NULL AND {due} IS NOT NULL AND {owner} > owners.id)
      FROM owners WHERE owners.id IS NOT NULL
),
"""
_TAKE: Final[LiteralString] = """
WITH RECURSIVE asked AS MATERIALIZED (
    SELECT clock_timestamp() + %(clock_offset)s AS now
),
{owners}
again AS (
    SELECT {{key}} FROM {{table}}
    WHERE rung_at IS NOT NULL AND {{due}} <= (SELECT now FROM asked)
    ORDER BY {{due}} LIMIT %(limit)s FOR UPDATE SKIP LOCKED
),
fresh AS ({fresh})
UPDATE {{table}} AS due_row
SET {{due}} = (SELECT now FROM asked) + %(redispatch)s,
    rung_at = (SELECT now FROM asked)
WHERE {{key}} = ANY (ARRAY(
    SELECT {{key}} FROM again UNION ALL SELECT {{key}} FROM fresh
))
RETURNING {{public_id}}, rung_at
"""
_TAKE_ANY: Final = _TAKE.format(owners="", fresh=_FRESH)
_TAKE_IN_SHARES: Final = _TAKE.format(owners=_OWNERS, fresh=_FRESH_BY_OWNER)
_PUT_BACK: Final[LiteralString] = """
UPDATE {table} AS due_row
SET {due} = clock_timestamp() + %(clock_offset)s + %(delay)s, rung_at = NULL
WHERE rung_at IS NOT NULL AND {due} IS NOT NULL
  AND (%(rung_at)s::timestamptz IS NULL OR rung_at = %(rung_at)s)
  AND {public_id} = ANY (%(ids)s)
"""
_RESET: Final[LiteralString] = """
UPDATE {table} SET {due} = clock_timestamp() + %(clock_offset)s, rung_at = NULL
WHERE rung_at IS NOT NULL AND {due} IS NOT NULL
"""


@transaction.atomic(durable=True)
def take_due(queue: DueQueue, *, limit: int = BATCH) -> Batch:
    """Take rows that are due, and make them due again after ``PM_REDISPATCH_SECONDS``.

    At most ``limit`` rows are rung for the first time, never more than keeps
    ``PM_RING_AHEAD`` rows rung and unclaimed (or ``SHARE`` of one owner), and at most
    ``limit`` are rung again.
    Nothing is taken while another dispatcher takes.
    """
    granted = fetch_one(_ALONE, {"queue": queue.queue})
    if granted is None or not granted[0]:
        return Batch()
    rows = fetch_all(
        queue.sql(_TAKE_IN_SHARES if queue.owner else _TAKE_ANY),
        {
            "clock_offset": clock.offset,
            "limit": limit,
            "share": SHARE,
            "ahead": settings.PM_RING_AHEAD,
            "redispatch": timedelta(seconds=settings.PM_REDISPATCH_SECONDS),
        },
    )
    return Batch(sorted(row[0] for row in rows), rows[0][1]) if rows else Batch()


def publish(queue: DueQueue, batch: Batch) -> int:
    """Hand a batch to the broker; return how many rows were rung.

    Raises BrokerAway at the first ring that fails. That row and those after it are
    then due again in 5 s; when this process is ending, at once.
    """
    for done, public_id in enumerate(batch.ids):
        if Closing.is_set:
            _put_back(queue, batch.ids[done:], rung_at=batch.rung_at, delay=0)
            return done
        try:
            _send(queue, public_id)
        except Exception as error:
            _put_back(queue, batch.ids[done:], rung_at=batch.rung_at)
            raise BrokerAway(type(error).__name__) from error
    return len(batch.ids)


def dispatch_due() -> int:
    """Ring all that is due, batch by batch; the dispatcher's work, and the alarm.

    Returns how many rows were rung. Raises BrokerAway.
    """
    rung = 0
    waiting = list(QUEUES)
    while waiting and not Closing.is_set:
        for queue in tuple(waiting):
            batch = take_due(queue)
            if not batch.ids:
                waiting.remove(queue)
            rung += publish(queue, batch)
    return rung


def give_back(
    queue: DueQueue, public_id: str, *, delay: float = GIVE_BACK_SECONDS
) -> None:
    """Make a row that was rung but cannot be served now due again after ``delay`` s.

    A row that is claimed, or waits for its back-off, is left as it is.
    """
    _put_back(queue, [public_id], rung_at=None, delay=delay)


def reset_rung() -> int:
    """Make every rung row due now: the broker that held their rings died with us.

    For a process that starts over ``memory://``. Returns how many rows there were.
    """
    return sum(
        execute(queue.sql(_RESET), {"clock_offset": clock.offset}) for queue in QUEUES
    )


def _send(queue: DueQueue, public_id: str) -> None:
    with current_app.producer_or_acquire() as producer:
        try:
            current_app.send_task(
                queue.task,
                args=[public_id],
                queue=queue.queue,
                producer=producer,
                retry=False,
            )
        except Exception:
            # its channel may still wait for the answer to this ring
            producer.connection.collect()
            raise


def _put_back(
    queue: DueQueue,
    ids: Sequence[str],
    *,
    rung_at: datetime | None,
    delay: float = GIVE_BACK_SECONDS,
) -> None:
    execute(
        queue.sql(_PUT_BACK),
        {
            "clock_offset": clock.offset,
            "delay": timedelta(seconds=delay),
            "rung_at": rung_at,
            "ids": list(ids),
        },
    )
