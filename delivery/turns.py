"""Turns at a provider's queue: one worker at a time, and a wait after each failure.

The database is where workers agree, and one column says both: ``due_at``, moved by
compare-and-set. The turn of a worker that died, or was frozen, lapses with it.
"""

from datetime import timedelta
from typing import Final
from uuid import UUID, uuid4

from django.conf import settings
from django.db import transaction

from core.clock import database_now
from core.database import execute
from delivery.models import EventPull
from delivery.statuses import EventSource
from mailboxes.services import raise_alert, resolve_alerts
from mailboxes.statuses import Severity

TURN: Final = timedelta(seconds=120)
"""How long a turn lasts unless it is kept: longer than one batch can take."""

FIRST_WAIT: Final = timedelta(seconds=15)
LONGEST_WAIT: Final = timedelta(minutes=5)
ALERT_AFTER: Final = 3
"""Failures in a row that a person is told of."""

ALERT: Final = "provider_events_not_pulled"


def take_turn(source: EventSource) -> UUID | None:
    """Begin a turn at a provider's queue; None while it is another's, or too early."""
    token, now = uuid4(), database_now()
    taken = execute(
        "INSERT INTO event_pulls AS pull (source, due_at, token)"
        " VALUES (%(source)s, %(until)s, %(token)s) ON CONFLICT (source) DO UPDATE"
        " SET due_at = EXCLUDED.due_at, token = EXCLUDED.token"
        " WHERE pull.due_at <= %(now)s",
        {"source": str(source), "until": now + TURN, "token": token, "now": now},
    )
    return token if taken else None


def keep_turn(token: UUID) -> bool:
    """Let a turn last anew; False once it has lapsed and is another's."""
    mine = EventPull.objects.filter(token=token)
    return mine.update(due_at=database_now() + TURN) == 1


@transaction.atomic(durable=True)
def end_turn(token: UUID, *, failure: str | None = None) -> None:
    """Let the next turn begin: at once or, after a failure, ever later.

    Raises an alert once enough have failed in a row, and resolves it after the first
    that has not. ``failure`` is a word. A turn that is another's by now is left alone.
    """
    mine = EventPull.objects.select_for_update(no_key=True).filter(token=token)
    if (pull := mine.first()) is None:
        return
    failures = pull.failures + 1 if failure else 0
    wait = _wait(failures) if failures else timedelta(0)
    mine.update(token=None, failures=failures, due_at=database_now() + wait)
    if failures >= ALERT_AFTER:
        raise_alert(
            ALERT,
            subject=pull.source,
            severity=Severity.PAGE,
            details={"failures": failures, "code": failure},
        )
    elif pull.failures and not failures:
        resolve_alerts(ALERT, subject=pull.source)


def _wait(failures: int) -> timedelta:
    wait = FIRST_WAIT * 2.0 ** min(failures - 1, 10)
    return min(wait, LONGEST_WAIT) * float(settings.PM_BACKOFF_SCALE)
