"""What waits for a person now: four statements, each over few rows or an index."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, LiteralString

from django.conf import settings

from core.database import fetch_all, fetch_one
from staff.settling.doubts import DOMAIN

NAMED: Final = 3
"""Domains and alerts that a line names; the others are a number."""

COUNTED: Final = 1000
"""Where a count ends that is only to say whether there are many."""

SLACK: Final = timedelta(minutes=1)
"""How long after its end a claim may stand: the alarms look every 15 s."""

_UNCERTAIN: Final[LiteralString] = f"""
SELECT coalesce(nullif({DOMAIN}, ''), 'no domain'), count(*), min(d.since)
  FROM (SELECT message_pk, min(updated_at) AS since FROM deliveries
         WHERE status = 'uncertain' GROUP BY message_pk) AS d
  JOIN messages m ON m.pk = d.message_pk
 GROUP BY 1 ORDER BY 2 DESC, 1
"""  # noqa: S608  constants only
_DOMAINS: Final[LiteralString] = """
SELECT id, name, state, coalesce(issues->0->>'code', state_reason, ''),
       coalesce(failing_since, state_changed_at), count(*) OVER ()
  FROM domains WHERE state IN ('failing', 'suspended')
 ORDER BY coalesce(failing_since, state_changed_at), id LIMIT %(named)s
"""
_STANDING: Final[LiteralString] = """
SELECT (SELECT count(*) FROM webhook_endpoints
         WHERE disabled_reason IN ('failing', 'gone')),
       (SELECT count(*) FROM (SELECT FROM outbound_state
         WHERE claimed_at <= %(claimed)s LIMIT %(counted)s) AS late),
       (SELECT count(*) FROM (SELECT FROM provider_events
         WHERE state = 'orphaned' AND due_at IS NULL AND received_at > %(day)s
         LIMIT %(counted)s) AS orphans),
       (SELECT coalesce(array_agg(provider || ':' || scope ORDER BY 1), '{}')
          FROM transport_breakers WHERE openings > 0),
       (SELECT at FROM watches WHERE name = 'beat'),
       (SELECT count(*) FROM alerts WHERE resolved_at IS NULL),
       (SELECT max(resolved_at) FROM alerts)
"""
_ALERTS: Final[LiteralString] = """
SELECT id, name, subject, severity, first_at FROM alerts WHERE resolved_at IS NULL
 ORDER BY severity = 'page' DESC, first_at, id LIMIT %(named)s
"""


@dataclass(frozen=True, slots=True)
class Doubtful:
    """A domain, and the sends from it that are in doubt."""

    domain: str
    sends: int


@dataclass(frozen=True, slots=True)
class BrokenDomain:
    """A domain that may not send, why, and since when."""

    id: str
    name: str
    state: str
    issue: str
    since: datetime


@dataclass(frozen=True, slots=True)
class OpenAlert:
    """An alert that nobody and nothing has closed."""

    id: str
    name: str
    subject: str
    severity: str
    since: datetime


@dataclass(frozen=True, slots=True)
class Needs:
    """What waits for a person, and what the rest stands on.

    ``quiet_since`` is when the last alert ended. Counts of claims and of the day's
    orphans end at 1,000.
    """

    uncertain: int
    oldest: datetime | None
    doubtful: Sequence[Doubtful]
    others: int
    domains: int
    broken: Sequence[BrokenDomain]
    endpoints: int
    claims: int
    orphans: int
    breakers: Sequence[str]
    beat: datetime | None
    alerts: int
    opened: Sequence[OpenAlert]
    quiet_since: datetime | None

    @property
    def is_well(self) -> bool:
        """Tell whether nothing waits for a person."""
        waits = self.uncertain + self.domains + self.endpoints + self.claims
        return not (waits + self.alerts + len(self.breakers))


def needs(*, now: datetime) -> Needs:
    """Return what waits for a person. Four statements."""
    doubtful = fetch_all(_UNCERTAIN)
    broken = fetch_all(_DOMAINS, {"named": NAMED})
    standing = fetch_one(_STANDING, _bounds(now))
    assert standing is not None  # noqa: S101  a SELECT without FROM has one row
    endpoints, claims, orphans, breakers, beat, alerts, quiet_since = standing
    opened = fetch_all(_ALERTS, {"named": NAMED})
    return Needs(
        uncertain=sum(row[1] for row in doubtful),
        oldest=min((row[2] for row in doubtful), default=None),
        doubtful=[Doubtful(*row[:2]) for row in doubtful[:NAMED]],
        others=sum(row[1] for row in doubtful[NAMED:]),
        domains=broken[0][5] if broken else 0,
        broken=[BrokenDomain(*row[:5]) for row in broken],
        endpoints=endpoints,
        claims=claims,
        orphans=orphans,
        breakers=breakers,
        beat=beat,
        alerts=alerts,
        opened=[OpenAlert(*row) for row in opened],
        quiet_since=quiet_since,
    )


def _bounds(now: datetime) -> dict[str, object]:
    longest = timedelta(seconds=settings.PM_CLAIM_SECONDS)
    return {
        "claimed": now - longest - SLACK,
        "day": now - timedelta(days=1),
        "counted": COUNTED,
    }
