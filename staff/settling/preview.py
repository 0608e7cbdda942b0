"""What a settlement would do: how many sends, whose, of when, and who is told."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, LiteralString

from core.database import fetch_all, fetch_one
from staff.models import Settlement
from staff.settling.doubts import DOMAIN

SHOWN: Final = 12
"""Domains that are named; the others are one line."""

LONGEST: Final = 60
"""Minutes that are shown one by one; of more, hours are, then days."""

_FORMS: Final = ("%Y-%m-%d %H:%M", "%Y-%m-%d %H:00", "%Y-%m-%d")
_DOUBTS: Final[LiteralString] = """
SELECT {domain}, date_trunc('minute', d.since), m.tenant_id, count(*),
       sum(d.in_doubt), sum(d.free)
  FROM (SELECT message_pk, min(updated_at) AS since, count(*) AS in_doubt,
               count(*) FILTER (WHERE charged_at IS NULL) AS free
          FROM deliveries
         WHERE status = 'uncertain' AND message_pk = ANY (%(keys)s)
         GROUP BY message_pk) AS d
  JOIN messages m ON m.pk = d.message_pk
 GROUP BY 1, 2, 3
"""
_ENDPOINTS: Final[LiteralString] = """
SELECT count(*) FROM webhook_endpoints
 WHERE disabled_reason IS NULL
   AND (tenant_id IS NULL OR tenant_id = ANY (%(tenants)s))
   AND events && ARRAY['*', %(event)s]
"""


@dataclass(frozen=True, slots=True)
class Part:
    """A domain or a time, and the sends of it."""

    name: str
    sends: int


@dataclass(frozen=True, slots=True)
class Preview:
    """What would be settled now; ``gone`` are no longer in doubt, and left out."""

    sends: int
    gone: int
    recipients: int
    units: int
    domains: Sequence[Part]
    times: Sequence[Part]
    first: datetime | None
    last: datetime | None
    told_of_sent: int
    told_of_failed: int


def preview_of(settlement: Settlement) -> Preview:
    """Return what a settlement would do now. Three statements."""
    domain = _DOUBTS.format(domain=DOMAIN)
    rows = fetch_all(domain, {"keys": settlement.keys})
    sends = sum(row[3] for row in rows)
    minutes = sorted(row[1] for row in rows)
    tenants = sorted({row[2] for row in rows})
    return Preview(
        sends=sends,
        gone=len(settlement.keys) - sends,
        recipients=int(sum(row[4] for row in rows)),
        units=int(sum(row[5] for row in rows)),
        domains=_largest((row[0] or "no domain", row[3]) for row in rows),
        times=_times([(row[1], row[3]) for row in rows]),
        first=minutes[0] if minutes else None,
        last=minutes[-1] if minutes else None,
        told_of_sent=_endpoints(tenants, "message.sent"),
        told_of_failed=_endpoints(tenants, "message.failed"),
    )


def _largest(counted: Iterable[tuple[str, int]]) -> list[Part]:
    of_each: Counter[str] = Counter()
    for name, number in counted:
        of_each[name] += number
    parts = [Part(*item) for item in of_each.most_common()]
    rest = sum(part.sends for part in parts[SHOWN:])
    return parts[:SHOWN] + ([Part("others", rest)] if rest else [])


def _times(counted: Sequence[tuple[datetime, int]]) -> list[Part]:
    """Return the sends by minute; by hour, or by day, where those are too many."""
    parts: list[Part] = []
    for form in _FORMS:
        of_each: Counter[str] = Counter()
        for at, number in counted:
            of_each[at.strftime(form)] += number
        parts = [Part(*item) for item in sorted(of_each.items())]
        if len(parts) <= LONGEST:
            break
    return parts


def _endpoints(tenants: Sequence[str], event: str) -> int:
    row = fetch_one(_ENDPOINTS, {"tenants": list(tenants), "event": event})
    return int(row[0]) if row is not None else 0
