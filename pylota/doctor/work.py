"""What is under way: sends in doubt, what waits too long, what needs a person."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, LiteralString

from core.clock import database_now
from core.database import fetch_one
from mailboxes.models import Alert
from mailboxes.statuses import Severity
from pylota.doctor.findings import Found, age_of, fail, number_of, ok
from pylota.watch.conditions import Condition
from pylota.watch.evaluate import Sign, signs

LATE: Final = timedelta(minutes=1)
"""How long what could leave may wait; a dispatcher looks each second."""

MOST_NAMED: Final = 5


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


def condition(asked: Condition) -> Found:
    """Ask whether a condition that raises an alert is true now."""
    now = database_now()
    found = signs(asked, now=now)
    if found:
        return fail(_words(asked, found, now=now), then=asked.then)
    return ok(asked.well)


def _words(asked: Condition, found: Sequence[Sign], *, now: datetime) -> str:
    told = dict(found[0].details)
    if "oldest" in told:
        told["oldest"] = age_of(now - datetime.fromisoformat(told["oldest"]))
    named = [sign.details.get("domain", sign.subject) for sign in found[:MOST_NAMED]]
    return asked.words.format(n=len(found), named=", ".join(named), **told)


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


def _counted(sql: LiteralString, age: timedelta = timedelta()) -> tuple[int, str]:
    """Return how many rows there are that are older than an age, and the oldest's."""
    now = database_now()
    row = fetch_one(sql, {"before": now - age})
    assert row is not None  # noqa: S101  a count gives a row
    count, oldest = row
    return count, age_of(now - oldest) if count else ""
