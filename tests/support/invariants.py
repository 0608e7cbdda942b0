"""The accountant: what must hold at the end of every fault, counted from outside.

I1  No recipient has two copies of one key.
I2  Whatever got a 202 is final or ``uncertain``; nothing is queued for ever.
I3  An accepted delivery has one copy, a refused one none, an uncertain one at most one.
I4  Holds, counters and the feed of events are functions of the rows.

A copy is a message that an outside sink took responsibility for. Sinks know the key by
the header ``X-Test-Key``, which the test gives each send.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, LiteralString

import psycopg
from psycopg import sql

KEY_HEADER = "X-Test-Key"
Copies = Mapping[tuple[str, str], int]
"""How many copies came, by key and recipient."""

ACCEPTED = frozenset({"submitted", "delivered", "deferred", "bounced", "complained"})
REFUSED = frozenset({"queued", "rejected", "failed", "suppressed"})

NO_SUCH_ROWS: Mapping[str, LiteralString] = {
    "a tenant whose held is not the sum of its open holds": """
        SELECT a.tenant_id, a.held, coalesce(sum(h.units), 0)
        FROM allowances a LEFT JOIN holds h USING (tenant_id, feature)
        GROUP BY a.tenant_id, a.feature, a.held
        HAVING a.held <> coalesce(sum(h.units), 0)""",
    "a tenant whose used is not the count of its charged deliveries": """
        SELECT a.tenant_id, a.used, count(d.charged_at)
        FROM allowances a JOIN quota_accounts q USING (tenant_id)
        LEFT JOIN deliveries d
          ON d.tenant_id = a.tenant_id AND d.charged_at >= q.period_start
        WHERE a.feature = 'sends'
        GROUP BY a.tenant_id, a.used
        HAVING a.used <> count(d.charged_at)""",
    "a delivery that is charged and not accepted, or the reverse": """
        SELECT message_pk, address, status, charged_at FROM deliveries
        WHERE (charged_at IS NOT NULL) <> (status IN
          ('submitted', 'delivered', 'deferred', 'bounced', 'complained'))""",
    "a hold of a message that is not queued": """
        SELECT h.ref, m.status FROM holds h JOIN messages m ON m.id = h.ref
        WHERE m.status <> 'queued'""",
    "a message that is queued without a queue row, or the reverse": """
        SELECT m.id, m.status FROM messages m
        LEFT JOIN outbound_state s ON s.message_pk = m.pk
        WHERE m.direction = 'outbound'
          AND (m.status = 'queued') <> (s.message_pk IS NOT NULL)""",
    "a message that was announced twice in the same way": """
        SELECT coalesce(payload#>>'{data,message_id}', payload#>>'{data,message,id}'),
               type, payload#>>'{data,recipient}', count(*)
        FROM events WHERE type LIKE 'message.%' AND type <> 'message.deferred'
        GROUP BY 1, 2, 3 HAVING count(*) > 1""",
    "a message that left by an accepted call and was not announced as sent": """
        SELECT m.id, m.status FROM messages m WHERE m.status IN
          ('submitted', 'delivered', 'deferred', 'bounced', 'complained')
        AND NOT 'reconciled' = ANY(m.flags)
        AND NOT EXISTS (SELECT 1 FROM events e WHERE e.type = 'message.sent'
          AND e.payload#>>'{data,message,id}' = m.id)""",
    "a mailbox whose events are not numbered without a gap": """
        SELECT owner_id, count(*), min(seq), max(seq) FROM events
        WHERE owner_kind = 'mailbox' GROUP BY owner_id
        HAVING count(*) <> max(seq) OR min(seq) <> 1""",
    "an event that the feed has before an earlier one of its mailbox": """
        SELECT id, seq, position, before FROM (
          SELECT id, seq, position, lag(coalesce(position, 2 ^ 62)) OVER
            (PARTITION BY owner_kind, owner_id ORDER BY seq) AS before FROM events) e
        WHERE position <= before""",
    "an attempt without an end on a message that is not queued": """
        SELECT m.id, a.n, a.phase FROM attempts a JOIN messages m ON m.pk = a.message_pk
        WHERE a.result IS NULL AND m.status <> 'queued'""",
    "a key with two messages": """
        SELECT identity_id, key_hash, count(DISTINCT message_id) FROM idempotency
        GROUP BY identity_id, key_hash HAVING count(DISTINCT message_id) > 1""",
    "an accepted message that no key stands for": """
        SELECT m.id FROM messages m WHERE m.direction = 'outbound' AND NOT EXISTS
          (SELECT 1 FROM idempotency i WHERE i.message_id = m.id)""",
}


BOOKS = (
    *("messages", "deliveries", "attempts", "outbound_state", "idempotency"),
    *("events", "holds", "allowances", "quota_accounts"),
)


@contextmanager
def books(
    database_url: str, tenants: Sequence[str]
) -> Iterator[psycopg.Connection[Any]]:
    """Open the books of these tenants: a connection that sees nobody else's rows."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        for table in BOOKS:
            connection.execute(
                sql.SQL(
                    "CREATE TEMP VIEW {table} AS SELECT * FROM public.{table}"
                    " WHERE tenant_id = ANY ({tenants})"
                ).format(
                    table=sql.Identifier(table), tenants=sql.Literal(list(tenants))
                )
            )
        yield connection


def broken(
    connection: psycopg.Connection[Any], accepted: Mapping[str, str], copies: Copies
) -> list[str]:
    """Return every breach of the invariants, in words; none is what must hold.

    ``accepted`` is the message id that each key was answered with. Nothing may still be
    on its way when this is asked.
    """
    return [
        *_of_copies(copies, accepted),
        *_of_outcomes(connection, accepted, copies),
        *_of_rows(connection),
    ]


def assert_unbroken(
    connection: psycopg.Connection[Any], accepted: Mapping[str, str], copies: Copies
) -> None:
    """Fail with every breach of the invariants."""
    breaches = broken(connection, accepted, copies)
    assert not breaches, "\n".join(breaches)


def unsettled(connection: psycopg.Connection[Any]) -> int:
    """Return how many messages are still queued."""
    row = connection.execute(
        "SELECT count(*) FROM messages WHERE status = 'queued'"
    ).fetchone()
    return int(row[0]) if row else 0


def _of_copies(copies: Copies, accepted: Mapping[str, str]) -> Iterable[str]:
    for (key, recipient), count in sorted(copies.items()):
        if count > 1:
            yield f"I1: {count} copies of {key} for {recipient}"
        if key not in accepted:
            yield f"I3: a copy of {key} for {recipient}, which was never accepted"


def _of_outcomes(
    connection: psycopg.Connection[Any], accepted: Mapping[str, str], copies: Copies
) -> Iterable[str]:
    statuses = dict(
        connection.execute(
            "SELECT id, status FROM messages WHERE direction = 'outbound'"
        ).fetchall()
    )
    deliveries: dict[str, list[tuple[str, str]]] = {}
    for message, address, status in connection.execute(
        "SELECT m.id, d.address, d.status FROM deliveries d"
        " JOIN messages m ON m.pk = d.message_pk"
    ):
        deliveries.setdefault(message, []).append((address, status))
    for key, message in sorted(accepted.items()):
        if statuses.get(message, "absent") in ("queued", "absent"):
            yield f"I2: {key} is {statuses.get(message, 'absent')}"
        for address, status in deliveries.get(message, []):
            count = copies.get((key, address), 0)
            if status in ACCEPTED and count != 1:
                yield f"I3: {key} is {status} for {address} with {count} copies"
            if status in REFUSED and count != 0:
                yield f"I3: {key} is {status} for {address} with {count} copies"


def _of_rows(connection: psycopg.Connection[Any]) -> Iterable[str]:
    for what, statement in NO_SUCH_ROWS.items():
        if rows := connection.execute(statement).fetchall():
            yield f"I4: {what}: {rows[:5]}"


def total(copies: Copies) -> Counter[str]:
    """Return the copies of each key, over all its recipients."""
    found: Counter[str] = Counter()
    for (key, _), count in copies.items():
        found[key] += count
    return found
