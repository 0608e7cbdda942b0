"""What a tenant's quota must come to, kept beside the tables, and held against them."""

import json
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from typing import Any, Final

from core.database import execute, fetch_one
from quota.caps import Caps
from quota.catalogue import BUILT_IN, Catalogue, parse_catalogue
from quota.days import TenantDays
from quota.periods import Period
from quota.statuses import BillingMode

SIZES: Final = {"free": 8, "developer": 16}
GRACE: Final = timedelta(days=7)
ZONE: Final = "Pacific/Auckland"

_STORED: Final = """
SELECT jsonb_build_object(
  'account', (SELECT jsonb_build_array(mode, plan_id, coalesce(topups->'sends', '0'),
                     period_start, period_end, past_due_since)
                FROM quota_accounts WHERE tenant_id = t.id),
  'sends', (SELECT jsonb_build_array(granted, used, held, limit_marked_for)
              FROM allowances WHERE tenant_id = t.id AND feature = 'sends'),
  'holds', (SELECT coalesce(jsonb_object_agg(ref, jsonb_build_array(
                     units, expires_at, identity_id, day, tenant_counted)), '{}')
              FROM holds WHERE tenant_id = t.id),
  'counters', (SELECT coalesce(
                        jsonb_object_agg(metric || ' ' || bucket, value), '{}')
                 FROM counters WHERE tenant_id = t.id),
  'told', (SELECT count(*) FROM events
            WHERE tenant_id = t.id AND type = 'billing.limit_reached'))
  FROM tenants t WHERE t.id = %(tenant)s
"""


def small_catalogue() -> Catalogue:
    """Return plans small enough to be used up within a few steps."""
    shown = BUILT_IN.model_dump(mode="json")
    shown["topups"]["sends"]["units"] = 2
    for plan in shown["plans"]:
        plan["features"]["sends"] = SIZES.get(plan["plan_id"])
    return parse_catalogue(json.dumps(shown))


@dataclass
class Open:
    """A hold as it must stand."""

    units: int
    expires_at: datetime
    caps: Caps
    day: date


@dataclass
class Books:
    """One tenant's quota."""

    period: Period
    days: TenantDays = field(default_factory=lambda: TenantDays(ZONE))
    mode: BillingMode = BillingMode.METERED
    plan: str = "free"
    topups: int = 0
    past_due_since: datetime | None = None
    used: int = 0
    open: dict[str, Open] = field(default_factory=dict)
    counters: dict[str, int] = field(default_factory=dict)
    told: list[datetime] = field(default_factory=list)

    @property
    def granted(self) -> int | None:
        """Return what the plan grants; None is unlimited."""
        if self.mode != BillingMode.METERED:
            return None
        return SIZES[self.plan] + (2 * self.topups if self.plan == "developer" else 0)

    @property
    def held(self) -> int:
        """Return what all open holds come to."""
        return sum(hold.units for hold in self.open.values())

    def at(self, now: datetime) -> "Books":
        """Return the books as whoever locks the account at an instant finds them."""
        ahead = replace(self)
        ahead.catch_up(now)
        return ahead

    def catch_up(self, now: datetime) -> None:
        """End what has ended: the period, the grace."""
        self.begin(self.period.at(now))
        since = self.past_due_since
        if since and since + GRACE <= now and self.mode == BillingMode.METERED:
            self.plan, self.past_due_since = "free", None

    def begin(self, period: Period) -> None:
        """Begin a period, if it is another one: nothing is used yet."""
        if period != self.period:
            self.period, self.used = period, 0

    def has_room(self, units: int) -> bool:
        """Tell whether the plan takes so many units more."""
        free = self.granted is None or self.used + self.held + units <= self.granted
        return free or not units

    def reached(self, caps: Caps, day: date) -> str | None:
        """Return whose cap is reached on a day; the identity's comes first."""
        for metric, (scope, cap) in caps.metrics().items():
            if self.counters.get(f"{metric} {day}", 0) >= cap:
                return str(scope)
        return None

    def count(self, caps: Caps, day: date) -> list[tuple[str, int]]:
        """Count a message; return the scope and percent of each warning that is new."""
        told = []
        for metric, (scope, cap) in caps.metrics().items():
            now = self._add(f"{metric} {day}", 1)
            for percent in (80, 100):
                mark = f"warned:{metric}:{percent} {day}"
                if now * 100 >= cap * percent and mark not in self.counters:
                    self.counters[mark] = 1
                    told.append((str(scope), percent))
        return told

    def uncount(self, caps: Caps, day: date) -> None:
        """Give back a message's place on its day."""
        for metric in caps.metrics():
            self._add(f"{metric} {day}", -1)

    def charge(self, units: int, now: datetime) -> None:
        """Charge what has left, to the period and to the day in UTC."""
        self.used += units
        if units:
            self._add(f"usage:sends {now.date()}", units)

    def _add(self, key: str, by: int) -> int:
        self.counters[key] = self.counters.get(key, 0) + by
        return self.counters[key]

    def rows(self) -> dict[str, Any]:
        """Return what the tables must hold."""
        return {
            "account": (
                *(str(self.mode), self.plan, self.topups),
                *(self.period.start, self.period.end, self.past_due_since),
            ),
            "sends": (
                *(self.granted, self.used, self.held),
                self.told[-1] if self.told else None,
            ),
            "holds": {ref: _hold_row(hold) for ref, hold in self.open.items()},
            "counters": self.counters,
            "told": len(self.told),
        }


def stored(tenant_id: str) -> dict[str, Any]:
    """Return what the tables hold of a tenant, in the form of ``Books.rows``."""
    row = fetch_one(_STORED, {"tenant": tenant_id})
    assert row is not None
    found: dict[str, Any] = json.loads(row[0])
    *plan, start, end, due = found["account"]
    *amounts, marked = found["sends"]
    return {
        **found,
        "account": (*plan, _instant(start), _instant(end), _instant(due)),
        "sends": (*amounts, _instant(marked)),
        "holds": {
            ref: (units, _instant(expires), *rest)
            for ref, (units, expires, *rest) in found["holds"].items()
        },
    }


def make_guard() -> None:
    """Make the row that a caller moves together with the quota: see ``is_first``."""
    execute("CREATE TEMP TABLE calls (id text PRIMARY KEY) ON COMMIT DROP")


def is_first(call: str) -> bool:
    """Tell whether a call is made for the first time; joins its transaction.

    So does whoever settles: it moves deliveries, and charges those that it moved.
    """
    return bool(
        execute(
            "INSERT INTO calls VALUES (%(id)s) ON CONFLICT DO NOTHING", {"id": call}
        )
    )


def _hold_row(hold: Open) -> tuple[Any, ...]:
    who, is_of_tenant = hold.caps.identity_id, hold.caps.tenant is not None
    return (hold.units, hold.expires_at, who, hold.day.isoformat(), is_of_tenant)


def _instant(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
