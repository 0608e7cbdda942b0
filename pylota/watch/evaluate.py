"""The minute's look at every condition, by whoever comes first: beat or a worker.

A row of ``watches`` is the turn: moved by compare-and-set in the transaction that
looks, so that of many evaluators one looks, and one that dies has not looked.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, LiteralString

from django.conf import settings
from django.db import transaction

from core.clock import database_now
from core.database import execute, fetch_all, fetch_one
from core.sealing import sealer
from core.sweeps import one_by_one
from delivery import feedback
from mailboxes.alert_services import raise_alerts, resolve_quiet
from pylota.watch.conditions import BATCH, CONDITIONS, MINUTE, MOST_COUNTED, Condition

BEAT: Final = "beat"
"""The row that the clock itself moves."""

# Of a deployment that never had a beat nothing can be too old: so it begins here.
_TAKEN: Final[LiteralString] = """
WITH first_look AS (
  INSERT INTO watches (name, at) VALUES (%(beat)s, %(now)s) ON CONFLICT DO NOTHING)
SELECT name FROM watches JOIN unnest(%(names)s::text[], %(since)s::timestamptz[])
    AS asked (name, since) USING (name)
 WHERE at > since
"""
_TAKE: Final[LiteralString] = """
INSERT INTO watches AS watch (name, at) VALUES (%(name)s, %(now)s)
ON CONFLICT (name) DO UPDATE SET previous_at = watch.at, at = EXCLUDED.at
 WHERE watch.at <= %(before)s
RETURNING previous_at
"""
_BEAT: Final[LiteralString] = """
INSERT INTO watches AS watch (name, at) VALUES (%(beat)s, %(now)s)
ON CONFLICT (name) DO UPDATE SET previous_at = watch.at, at = EXCLUDED.at
 WHERE watch.at < EXCLUDED.at
"""


@dataclass(frozen=True, slots=True)
class Sign:
    """A subject of which a condition is true."""

    subject: str
    details: Mapping[str, Any]


def keep_watch(conditions: Sequence[Condition] = CONDITIONS) -> int:
    """Look at each condition that nobody has looked at for its time; return how many.

    Safe beside any other. One that cannot be looked at keeps no other, and is tried
    again at the next call.
    """
    now = database_now()
    rows = fetch_all(
        _TAKEN,
        {
            "beat": BEAT,
            "now": now,
            "names": [condition.name for condition in conditions],
            "since": [now - condition.every for condition in conditions],
        },
    )
    taken = {name for (name,) in rows}
    due = [condition for condition in conditions if condition.name not in taken]
    return one_by_one("watch", due, look)


@transaction.atomic(durable=True)
def look(condition: Condition) -> bool:
    """Raise, renew and resolve the alerts of one condition; False if it is not due.

    An alert is over at the second look in a row that did not find its subject. Five
    statements at most, however many subjects there are.
    """
    now = database_now()
    turn = fetch_one(
        _TAKE, {"name": condition.name, "now": now, "before": now - condition.every}
    )
    if turn is None:
        return False
    found = signs(condition, now=now)
    if found:
        told = {sign.subject: sign.details for sign in found}
        raise_alerts(condition.name, told, severity=condition.severity, at=now)
    (last_look,) = turn
    # past a full batch nobody knows what is still true
    if last_look is not None and len(found) < BATCH:
        keep = [sign.subject for sign in found]
        resolve_quiet(condition.name, quiet_since=last_look, keep=keep, at=now)
    return True


def signs(condition: Condition, *, now: datetime) -> list[Sign]:
    """Return the subjects of which a condition is true, 100 at most."""
    rows = fetch_all(condition.sql, _bounds(now))
    # JSON comes as text on Django's connections
    return [Sign(subject, json.loads(details)) for subject, details in rows]


def mark_beat() -> None:
    """Remember that the clock's tasks are run."""
    execute(_BEAT, {"beat": BEAT, "now": database_now()})


def _bounds(now: datetime) -> dict[str, Any]:
    """Return where late begins, and the other values that statements ask for."""
    slack = max(MINUTE, timedelta(seconds=4 * settings.PM_ALARM_SECONDS))
    return {
        "quarter": now - timedelta(minutes=15),
        "hour": now - timedelta(hours=1),
        "late": now - slack,
        "claimed": now - slack - timedelta(seconds=settings.PM_CLAIM_SECONDS),
        "beaten": now - 2 * slack,
        "ahead": settings.PM_RING_AHEAD,
        "keys": sealer().key_ids,
        "batch": BATCH,
        "counted": MOST_COUNTED,
        **feedback.bounds(now),
    }
