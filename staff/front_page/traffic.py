"""How mail has gone: four statements, over the newest 100,000 messages at most.

A message's id begins with when it was made, so the ids' index finds those of a time;
its row number rises, so that a range of them bounds how many are read.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, LiteralString

from django.conf import settings

from core.database import fetch_all, fetch_one
from core.ids import first_id
from mailboxes.policy import effective_policy
from mailboxes.statuses import MessageStatus
from quota.caps import TENANT_METRIC
from quota.days import TenantDays

HOURS: Final = 48
DAYS: Final = 7
MOST: Final = 100_000
"""Messages that are read for the plots."""

SAMPLE: Final = 5_000
"""Sends whose waits are compared; of more, every second, third, … is."""

NEAREST: Final = 5
"""Tenants and domains that are shown."""

M = MessageStatus
WENT_OUT: Final = frozenset({M.SUBMITTED, M.DEFERRED, M.DELIVERED, M.COMPLAINED})
DID_NOT: Final = frozenset({M.BOUNCED, M.REJECTED, M.FAILED})

_SENDS: Final[LiteralString] = """
SELECT date_trunc('hour', received_at) AS hour,
       coalesce(split_part(from_address, '@', 2), '') AS domain, status, count(*)
  FROM messages
 WHERE pk > (SELECT coalesce(max(pk), 0) - %(most)s FROM messages)
   AND id >= %(first)s AND direction = 'outbound' AND received_at >= %(week)s
 GROUP BY GROUPING SETS ((hour, status), (domain, status))
"""
_BEFORE: Final[LiteralString] = """
SELECT received_at FROM messages WHERE pk <= (SELECT max(pk) - %(most)s FROM messages)
 ORDER BY pk DESC LIMIT 1
"""
_WAITS: Final[LiteralString] = """
SELECT date_trunc('hour', m.received_at), count(*),
       (1000 * percentile_cont(0.5) WITHIN GROUP (ORDER BY waited))::bigint,
       (1000 * percentile_cont(0.95) WITHIN GROUP (ORDER BY waited))::bigint
  FROM messages m JOIN attempts a ON a.message_pk = m.pk AND a.n = 1,
       LATERAL (SELECT greatest(0, extract(epoch FROM a.claimed_at - m.received_at))
                    AS waited) AS w
 WHERE m.pk > (SELECT coalesce(max(pk), 0) - %(most)s FROM messages)
   AND m.pk %% %(step)s = 0
   AND m.id >= %(first)s AND m.direction = 'outbound' AND m.received_at >= %(since)s
 GROUP BY 1
"""
_CAPS: Final[LiteralString] = """
SELECT t.id, t.slug, t.timezone, t.tz_next, c.bucket, c.value,
       coalesce((t.policy->>'tenant_daily_send_cap')::bigint, %(cap)s) AS cap
  FROM tenants t
  JOIN counters c ON c.tenant_id = t.id AND c.metric = %(metric)s
                 AND c.bucket = ANY (%(days)s)
 WHERE t.status = 'active'
 ORDER BY c.value / greatest(1.0, coalesce(
            (t.policy->>'tenant_daily_send_cap')::bigint, %(cap)s)) DESC, t.id
 LIMIT %(limit)s
"""


@dataclass(frozen=True, slots=True)
class Hour:
    """What was accepted in one hour, by what has become of it until now."""

    at: datetime
    went_out: int = 0
    did_not: int = 0
    in_doubt: int = 0
    waits: int = 0


@dataclass(frozen=True, slots=True)
class Wait:
    """How long the sends of one hour waited for a transport, in milliseconds."""

    at: datetime
    sends: int = 0
    p50: int = 0
    p95: int = 0


@dataclass(frozen=True, slots=True)
class DomainSends:
    """The week's sends from one domain, and the bad ones among them."""

    name: str
    sends: int
    bounced: int
    complained: int


@dataclass(frozen=True, slots=True)
class NearCap:
    """A tenant, and how much of its daily cap is used."""

    tenant_id: str
    slug: str
    used: int
    cap: int

    @property
    def percent(self) -> int:
        """Return how much of the cap is used; all of it if nothing is allowed."""
        return self.used * 100 // self.cap if self.cap else 100


@dataclass(frozen=True, slots=True)
class Traffic:
    """What the plots show. ``is_cut`` tells that older sends were left out."""

    hours: Sequence[Hour]
    waits: Sequence[Wait]
    step: int
    domains: Sequence[DomainSends]
    caps: Sequence[NearCap]
    is_cut: bool


def traffic(*, now: datetime) -> Traffic:
    """Return how mail has gone. Four statements."""
    week = now - timedelta(days=DAYS)
    rows = fetch_all(_SENDS, {"most": MOST, "week": week, "first": _first(week)})
    hours = _hours(rows, now=now)
    of_hours = sum(h.went_out + h.did_not + h.in_doubt + h.waits for h in hours)
    step = max(1, of_hours // SAMPLE)
    by_domain = [row for row in rows if row[1] is not None]
    return Traffic(
        hours=hours,
        waits=_waits(step, now=now),
        step=step,
        domains=_domains(by_domain),
        caps=_caps(now),
        is_cut=_is_cut(now),
    )


def _first(since: datetime) -> str:
    """Return an id before all that were accepted since; one is made a bit earlier."""
    return first_id("msg", since - timedelta(minutes=5))


def _is_cut(now: datetime) -> bool:
    """Tell whether the week has more messages than are read."""
    row = fetch_one(_BEFORE, {"most": MOST})
    return row is not None and row[0] >= now - timedelta(days=DAYS)


def _places(now: datetime) -> list[datetime]:
    """Return the last 48 hours, this one included, by when each began."""
    last = now.replace(minute=0, second=0, microsecond=0)
    return [last - timedelta(hours=n) for n in reversed(range(HOURS))]


def _hours(rows: Sequence[tuple[object, ...]], *, now: datetime) -> list[Hour]:
    counted: Counter[tuple[object, object]] = Counter()
    for hour, _, status, number in rows:
        if hour is not None:
            counted[hour, _group(str(status))] += int(str(number))
    return [
        Hour(at, *(counted[at, group] for group in range(4))) for at in _places(now)
    ]


def _group(status: str) -> int:
    """Return where an hour counts a status: in the order of its fields."""
    if status in WENT_OUT:
        return 0
    if status in DID_NOT:
        return 1
    return 2 if status == M.UNCERTAIN else 3


def _waits(step: int, *, now: datetime) -> list[Wait]:
    places = _places(now)
    bounds = {"most": MOST, "since": places[0], "first": _first(places[0])}
    rows = fetch_all(_WAITS, {**bounds, "step": step})
    found = {row[0]: Wait(*row) for row in rows}
    return [found.get(at, Wait(at)) for at in places]


def _domains(rows: Sequence[tuple[object, ...]]) -> list[DomainSends]:
    counted: Counter[tuple[str, str]] = Counter()
    sends: Counter[str] = Counter()
    for _, domain, status, number in rows:
        counted[str(domain), str(status)] += int(str(number))
        sends[str(domain)] += int(str(number))
    found = [
        DomainSends(name, n, counted[name, M.BOUNCED], counted[name, M.COMPLAINED])
        for name, n in sends.items()
    ]
    bad = [one for one in found if one.bounced or one.complained]
    bad.sort(key=lambda one: (-(one.bounced + one.complained), one.name))
    return bad[:NEAREST]


def _caps(now: datetime) -> list[NearCap]:
    policy = effective_policy(settings.PM_DEFAULT_POLICY)
    days = [(now + timedelta(days=n)).date().isoformat() for n in (-1, 0, 1)]
    rows = fetch_all(
        _CAPS,
        {
            "cap": policy["tenant_daily_send_cap"],
            "metric": TENANT_METRIC,
            "days": days,
            "limit": 3 * 10 * NEAREST,
        },
    )
    today = [
        NearCap(tenant_id, slug, value, cap)
        for tenant_id, slug, zone, tz_next, bucket, value, cap in rows
        if bucket == _day_of(zone, tz_next, now)
    ]
    return today[:NEAREST]


def _day_of(zone: str, tz_next: str | None, now: datetime) -> str:
    """Return a tenant's day; JSON comes as text on Django's connections."""
    change = json.loads(tz_next) if tz_next is not None else None
    return TenantDays.of_row(zone, change).day(now).isoformat()
