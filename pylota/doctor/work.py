"""What is under way: sends in doubt, what waits too long, what needs a person."""

from datetime import timedelta
from typing import Final, LiteralString

from django.conf import settings

from core.clock import database_now
from core.database import fetch_one
from delivery.feedback import silent_domains
from mailboxes.models import Alert
from mailboxes.statuses import Severity
from outbound.dispatch import QUEUES, DueQueue
from outbound.models import Breaker
from pylota.doctor.findings import Found, age_of, fail, number_of, ok

# Once as many are rung as may be, the others are due and wait: the queue is long.
_NOT_RUNG: Final[LiteralString] = """
SELECT count(*), min({due}) FROM {table}
 WHERE {due} <= %(before)s
   AND (rung_at IS NOT NULL OR %(ahead)s > (
     SELECT count(*) FROM {table} WHERE rung_at IS NOT NULL AND {due} IS NOT NULL))
"""
# One owner's backlog waits for its own share; only who has nothing rung is forgotten.
_NOT_RUNG_IN_SHARES: Final[LiteralString] = """
SELECT count(*), min({due}) FROM {table} AS waiting
 WHERE {due} <= %(before)s
   AND (rung_at IS NOT NULL OR NOT EXISTS (
     SELECT FROM {table} AS other WHERE other.{owner} = waiting.{owner}
        AND other.rung_at IS NOT NULL AND other.{due} IS NOT NULL))
"""
_NOT_SWEPT: Final[LiteralString] = (
    "SELECT count(*), min(expires_at) FROM holds WHERE expires_at <= %(before)s"
)

LATE: Final = timedelta(minutes=1)
"""How long what could leave may wait; a dispatcher looks each second."""

MOST_NAMED: Final = 5

MANY_ORPHANS: Final = 10
"""More than so many in an hour are no coincidence (security, section 10)."""


def uncertain() -> Found:
    """Count the sends that a person owes an answer."""
    count, oldest = _counted(
        "SELECT count(DISTINCT message_pk), min(updated_at) FROM deliveries"
        " WHERE status = 'uncertain'"
    )
    if count:
        return fail(
            f"{number_of(count, 'send')} in doubt, the oldest for {oldest}",
            then="settle them in the admin: messages with the status uncertain",
        )
    return ok("no send is in doubt")


def queue() -> Found:
    """Look for mail that could leave and does not, whatever the rings say."""
    count, oldest = _counted(
        "SELECT count(*), min(coalesce(s.retry_at, m.received_at))"
        " FROM outbound_state s JOIN messages m ON m.pk = s.message_pk"
        " WHERE s.dispatch_at IS NOT NULL"
        " AND coalesce(s.retry_at, m.received_at) <= %(before)s",
        LATE,
    )
    if count:
        return fail(
            f"{number_of(count, 'message')} could have left, the oldest for {oldest}",
            then="look whether a worker runs, or give it more slots",
        )
    return ok("nothing waits that could leave")


def claims() -> Found:
    """Look for claims that the claim alarm should have ended."""
    count, oldest = _counted(
        "SELECT count(*), min(claimed_at) FROM outbound_state"
        " WHERE claimed_at <= %(before)s",
        timedelta(seconds=settings.PM_CLAIM_SECONDS) + _slack(),
    )
    if count:
        return fail(
            f"{number_of(count, 'claim')} ran out, the oldest made {oldest} ago",
            then="start a worker: the claim alarm runs in each",
        )
    return ok("none has run out")


def alarms() -> Found:
    """Look for rows that are due and that nobody took: no dispatcher or beat runs."""
    counted = [
        *((q.table, *_counted(_not_rung(q), _slack())) for q in QUEUES),
        ("holds", *_counted(_NOT_SWEPT, _slack())),
    ]
    if overdue := [f"{n} of {table} for {age}" for table, n, age in counted if n]:
        return fail(
            f"due and not taken: {', '.join(overdue)}", then="start a worker and beat"
        )
    return ok("nothing is overdue")


def _not_rung(queue: DueQueue) -> LiteralString:
    return queue.sql(_NOT_RUNG_IN_SHARES if queue.owner else _NOT_RUNG)


def orphans() -> Found:
    """Count the events of providers that belong to no message of ours."""
    row = fetch_one(
        "SELECT count(*), count(*) FILTER (WHERE occurred_at > %(since)s)"
        " FROM provider_events WHERE state = 'orphaned'",
        {"since": database_now() - timedelta(hours=1)},
    )
    assert row is not None  # noqa: S101  a count gives a row
    kept, new = row
    if new > MANY_ORPHANS:
        return fail(
            f"{number_of(new, 'event')} of the last hour found no message",
            then="look at them in the admin: does another system send by the same "
            "account, or was the database restored",
        )
    return ok(f"{kept} kept, {new} of the last hour")


def breakers() -> Found:
    """Look for ways out on which calls ended in doubt, one after the other."""
    opened = Breaker.objects.filter(openings__gt=0).order_by("provider", "scope")
    if names := [f"{way.provider}:{way.scope}" for way in opened[:MOST_NAMED]]:
        return fail(
            f"{opened.count()} open, mail waits behind {', '.join(names)}",
            then="see with the relay or provider why its answers are lost; it is tried "
            "again by itself",
        )
    return ok("none is open")


def feedback() -> Found:
    """Look for domains whose provider never said anything of what was sent."""
    if silent := [domain.name for domain in silent_domains()]:
        return fail(
            f"no event ever came for {', '.join(silent[:MOST_NAMED])}",
            then="let the provider send the events of this domain here",
        )
    return ok("providers say what becomes of mail")


def alerts() -> Found:
    """Count the open alerts; those that wake somebody up are a failure."""
    opened = Alert.objects.filter(resolved_at=None)
    pages = opened.filter(severity=Severity.PAGE)
    tickets = number_of(opened.count() - pages.count(), "ticket")
    names = sorted(set(pages.values_list("name", flat=True)))
    if names:
        return fail(
            f"{number_of(pages.count(), 'alert')} of severity page:"
            f" {', '.join(names)}; {tickets}",
            then="look at them in the admin",
        )
    return ok(f"none of severity page, {tickets}")


def _slack() -> timedelta:
    """Return how long the alarms may take to see what is due."""
    return max(LATE, timedelta(seconds=4 * settings.PM_ALARM_SECONDS))


def _counted(sql: LiteralString, age: timedelta = timedelta()) -> tuple[int, str]:
    """Return how many rows there are that are older than an age, and the oldest's."""
    now = database_now()
    row = fetch_one(sql, {"before": now - age, "ahead": settings.PM_RING_AHEAD})
    assert row is not None  # noqa: S101  a count gives a row
    count, oldest = row
    return count, age_of(now - oldest) if count else ""
