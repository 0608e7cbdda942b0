"""Every condition that raises an alert: a table of names, statements and words.

A statement gives a row for each subject of which the condition is true now: subject,
and details as JSON. It is one look, through an index or over a table that has a row a
domain or a way out, and gives 100 rows at most. ``manage.py doctor`` asks the same.

Alerts of calls and events are not here: ``provider_quota``, ``ses_sending_paused``,
``abuse_pause`` and the like are raised where they happen (security, section 10).
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final, LiteralString

from delivery import feedback
from mailboxes.statuses import Severity
from outbound import breaker_services
from outbound.dispatch import QUEUES, DueQueue

MINUTE: Final = timedelta(minutes=1)
BATCH: Final = 100
"""Subjects of one condition that one look tells of."""

MOST_COUNTED: Final = 1000
"""Where counting ends: a thousand or a million call for the same person."""


@dataclass(frozen=True, slots=True)
class Condition:
    """Something that must not go on, and what to say of it.

    ``title`` is the doctor's line and ``well`` what that says while nothing is wrong.
    ``words`` may name ``n`` (how many subjects), ``named`` (the first of them) and the
    details of the first, with an instant ``oldest`` as an age. ``then`` is what to do.
    """

    name: str
    title: str
    severity: Severity
    sql: LiteralString
    well: str
    words: str
    then: str
    every: timedelta = MINUTE


_OVERDUE: Final[LiteralString] = """
SELECT '{table}' AS subject, jsonb_build_object('count', n, 'oldest', oldest) AS details
  FROM (SELECT count(*) AS n, min({due}) AS oldest FROM (
          SELECT {due} FROM {table}
           WHERE {due} <= %(late)s AND (rung_at IS NOT NULL OR {forgotten})
           ORDER BY {due} LIMIT %(counted)s) AS late_rows) AS counted
 WHERE n > 0
"""
_ROOM_FOR_MORE: Final[LiteralString] = """
%(ahead)s > (SELECT count(*) FROM {table}
              WHERE rung_at IS NOT NULL AND {due} IS NOT NULL)
"""
# One owner's backlog waits for its own share; only who has nothing rung is forgotten.
_NOTHING_RUNG: Final[LiteralString] = """
NOT EXISTS (SELECT FROM {table} AS other WHERE other.{owner} = {table}.{owner}
               AND other.rung_at IS NOT NULL AND other.{due} IS NOT NULL)
"""


def _overdue(queue: DueQueue) -> LiteralString:
    forgotten = _NOTHING_RUNG if queue.owner else _ROOM_FOR_MORE
    return queue.sql(_OVERDUE.replace("{forgotten}", forgotten))


_UNREADABLE: Final[LiteralString] = """
SELECT '{table}.{column}' AS subject, jsonb_build_object('count', n) AS details
  FROM (SELECT count(*) AS n FROM {table} WHERE {column} IS NOT NULL
           AND split_part({column}, '.', 2) <> ALL (%(keys)s)) AS sealed
 WHERE n > 0
"""
SEALED: Final[tuple[tuple[LiteralString, LiteralString], ...]] = (
    ("domains", "smtp_sealed"),
    ("domains", "smtp_pending_sealed"),
    ("webhook_endpoints", "secret_enc"),
    ("webhook_endpoints", "prev_secret_enc"),
    ("signing_keys", "ciphertext"),
)
"""The columns that hold sealed secrets; what is only kept for reading is left out."""

_BROKEN_DOMAINS: Final[LiteralString] = """
SELECT id, jsonb_build_object('domain', name, 'oldest', state_changed_at)
  FROM domains WHERE kind = '{kind}' AND state IN ('failing', 'suspended')
 ORDER BY id LIMIT %(batch)s
"""
_UNION: Final[LiteralString] = " UNION ALL "

CONDITIONS: Final = (
    Condition(
        name="uncertain_spike",
        title="uncertain spike",
        severity=Severity.PAGE,
        sql="""
SELECT '', jsonb_build_object('count', count(*)) FROM (
  SELECT DISTINCT message_pk FROM deliveries
   WHERE status = 'uncertain' AND updated_at > %(quarter)s LIMIT %(counted)s) AS sends
HAVING count(*) > 5
""",
        well="at most 5 sends of the last 15 min",
        words="{count} sends of the last 15 min are in doubt",
        then="see with the relay or provider why its answers are lost, then settle "
        "them in the admin",
    ),
    Condition(
        name=breaker_services.ALERT,
        title="breakers",
        severity=Severity.PAGE,
        sql="""
SELECT provider || ':' || scope,
       jsonb_build_object('openings', openings, 'unknowns', unknowns)
  FROM transport_breakers WHERE openings > 0 ORDER BY 1 LIMIT %(batch)s
""",
        well="none is open",
        words="{n} open, mail waits behind {named}",
        then="see with the relay or provider why its answers are lost; it is tried "
        "again by itself",
    ),
    Condition(
        name="delivery_orphaned",
        title="orphaned events",
        severity=Severity.TICKET,
        sql="""
SELECT '', jsonb_build_object('count', count(*)) FROM (
  SELECT FROM provider_events
   WHERE state = 'orphaned' AND due_at IS NULL AND received_at > %(hour)s
   LIMIT %(counted)s) AS orphans
HAVING count(*) > 10
""",
        well="at most 10 of the last hour",
        words="{count} events of the last hour found no message",
        then="look at them in the admin: does another system send by the same "
        "account, or was the database restored",
    ),
    Condition(
        name="claims_overdue",
        title="claims",
        severity=Severity.PAGE,
        sql="""
SELECT '', jsonb_build_object('count', n, 'oldest', oldest)
  FROM (SELECT count(*) AS n, min(claimed_at) AS oldest FROM (
          SELECT claimed_at FROM outbound_state WHERE claimed_at <= %(claimed)s
           ORDER BY claimed_at LIMIT %(counted)s) AS late_rows) AS counted
 WHERE n > 0
""",
        well="none has run out",
        words="ran out and not ended: {count}, the oldest made {oldest} ago",
        then="start a worker: the claim alarm runs in each",
    ),
    Condition(
        name="rows_overdue",
        title="due rows",
        severity=Severity.PAGE,
        sql=_UNION.join(_overdue(queue) for queue in QUEUES),
        well="none is overdue",
        words="due and not taken: {count} of {named}, the oldest for {oldest}",
        then="start a worker, and look whether the broker takes messages",
    ),
    Condition(
        name="outbox_stalled",
        title="outbox",
        severity=Severity.PAGE,
        sql="""
SELECT '', jsonb_build_object('oldest', occurred_at) FROM (
  SELECT occurred_at FROM events WHERE dispatched_at IS NULL
   ORDER BY arrival LIMIT 1) AS first_event
 WHERE occurred_at <= %(late)s
""",
        well="every event has its place in the feed",
        words="no event was given its place in the feed for {oldest}",
        then="start a worker: its dispatcher numbers them",
    ),
    Condition(
        name="holds_overdue",
        title="holds",
        severity=Severity.TICKET,
        sql="""
SELECT '', jsonb_build_object('count', n, 'oldest', oldest)
  FROM (SELECT count(*) AS n, min(expires_at) AS oldest FROM (
          SELECT expires_at FROM holds WHERE expires_at <= %(late)s
           ORDER BY expires_at LIMIT %(counted)s) AS late_rows) AS counted
 WHERE n > 0
""",
        well="none has run out",
        words="ran out and not given back: {count}, the oldest {oldest} ago",
        then="start beat and a worker: a task of beat's gives them back",
    ),
    Condition(
        name="beat_stale",
        title="beat",
        severity=Severity.PAGE,
        sql="""
SELECT '', jsonb_build_object('oldest', at) FROM watches
 WHERE name = 'beat' AND at <= %(beaten)s
""",
        well="it keeps time, or nothing was started yet",
        words="none of its tasks has run for {oldest}",
        then="start beat; if it runs, look whether the queue maintenance is worked off",
    ),
    Condition(
        name="sealed_secret_unreadable",
        title="sealed secrets",
        severity=Severity.PAGE,
        sql=_UNION.join(_UNREADABLE.format(table=t, column=c) for t, c in SEALED),
        well="all are sealed with a key that is set",
        words="sealed with a key that is not set: {count} of {named}",
        then="set PM_MASTER_KEY or PM_MASTER_KEY_B to the key that sealed them",
    ),
    Condition(
        name="domain_failing",
        title="domains",
        severity=Severity.TICKET,
        sql=_BROKEN_DOMAINS.format(kind="external"),
        well="none is failing or suspended",
        words="{n} failing or suspended: {named}, the first for {oldest}",
        then="let its owner publish the records that the admin shows",
    ),
    Condition(
        name="platform_domain_failing",
        title="platform's domain",
        severity=Severity.PAGE,
        sql=_BROKEN_DOMAINS.format(kind="platform"),
        well="it may send",
        words="{named} is failing or suspended for {oldest}",
        then="repair its records: what falls back has no other way out",
    ),
    Condition(
        name=feedback.ALERT,
        title="feedback",
        severity=Severity.TICKET,
        sql=feedback.SILENT,
        well="providers say what becomes of mail",
        words="no event ever came for {named}",
        then="let the provider send the events of this domain here",
        every=timedelta(minutes=10),
    ),
)
"""In the order of the doctor's lines."""
