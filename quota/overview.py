"""How a tenant's account stands, for a page: read without locks, in few statements."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, Final

from django.conf import settings

from core.database import fetch_all
from mailboxes.policy import effective_policy
from quota.allowances import Standing
from quota.caps import SYSTEM_CAP, TENANT_METRIC
from quota.days import TenantDays
from quota.models import Allowance, QuotaAccount, UsageDay
from quota.periods import Period
from quota.statuses import Feature, Metric

DAYS_SHOWN: Final = 92
NEAREST_SHOWN: Final = 5

# the tenant's own counter first, then its identities', those nearest to their cap first
_COUNTED: Final = """
SELECT i.id, i.username, c.value, CASE
         WHEN i.id IS NULL THEN %(tenant_cap)s
         WHEN i.is_system THEN %(system_cap)s
         ELSE coalesce((i.send_policy->>'daily_cap')::bigint, %(identity_cap)s)
       END AS cap
  FROM counters c LEFT JOIN identities i
    ON i.tenant_id = c.tenant_id AND c.metric = %(metric)s || ':' || i.id
 WHERE c.tenant_id = %(tenant)s AND c.bucket = %(day)s
   AND (c.metric = %(metric)s OR i.id IS NOT NULL)
 ORDER BY i.id IS NOT NULL, value::float / greatest(1, CASE
         WHEN i.is_system THEN %(system_cap)s
         ELSE coalesce((i.send_policy->>'daily_cap')::bigint, %(identity_cap)s)
       END) DESC, i.id
 LIMIT %(limit)s
"""


@dataclass(frozen=True, slots=True)
class CapToday:
    """How many messages were counted today, and how many may be."""

    used: int
    limit: int
    identity_id: str | None = None
    username: str | None = None

    @property
    def percent(self) -> int:
        """Return how much of the cap is used; all of it if nothing is allowed."""
        return self.used * 100 // self.limit if self.limit else 100


@dataclass(frozen=True, slots=True)
class CapsToday:
    """The tenant's cap on its local day, and the identities nearest to theirs."""

    day: date
    timezone: str
    resets_at: datetime
    tenant: CapToday
    identities: Sequence[CapToday]


@dataclass(frozen=True, slots=True)
class DayUsed:
    """What was used on one day in UTC."""

    day: date
    sends: int
    outbound: int


def standings(account: QuotaAccount, *, now: datetime) -> list[Standing]:
    """Return how each feature stands; of a period that is over nothing is used."""
    is_over = now >= account.period_end
    rows = {
        row.feature: row
        for row in Allowance.objects.filter(tenant_id=account.tenant_id)
    }
    return [
        Standing(
            feature,
            row.granted,
            0 if is_over and feature == Feature.SENDS else row.used,
            row.held,
        )
        for feature in Feature
        if (row := rows.get(feature)) is not None
    ]


def period_at(account: QuotaAccount, now: datetime) -> Period:
    """Return the period that runs, even if nobody has begun it yet."""
    return Period(account.period_start, account.period_end).at(now)


def caps_today(account: QuotaAccount, *, now: datetime) -> CapsToday:
    """Return what the daily caps have left, on the tenant's own day."""
    tenant = account.tenant
    policy = effective_policy(settings.PM_DEFAULT_POLICY, tenant.policy)
    days = TenantDays.of_row(tenant.timezone, tenant.tz_next)
    of_tenant = CapToday(0, policy["tenant_daily_send_cap"])
    identities = []
    for identity_id, username, used, cap in _counted(tenant.id, days.day(now), policy):
        if identity_id is None:
            of_tenant = CapToday(used, cap)
        else:
            identities.append(CapToday(used, cap, identity_id, username))
    return CapsToday(
        day=days.day(now),
        timezone=days.zone_name(now),
        resets_at=days.resets_at(now),
        tenant=of_tenant,
        identities=identities[:NEAREST_SHOWN],
    )


def _counted(tenant_id: str, day: date, policy: dict[str, Any]) -> list[Any]:
    return fetch_all(
        _COUNTED,
        {
            "tenant": tenant_id,
            "metric": TENANT_METRIC,
            "day": day.isoformat(),
            "tenant_cap": policy["tenant_daily_send_cap"],
            "identity_cap": policy["identity_daily_send_cap"],
            "system_cap": SYSTEM_CAP,
            "limit": NEAREST_SHOWN + 1,
        },
    )


def days_used(tenant_id: str, *, until: date) -> list[DayUsed]:
    """Return each of the last 92 days, the last one included, with what it used."""
    first = until - timedelta(days=DAYS_SHOWN - 1)
    rows = UsageDay.objects.filter(
        tenant_id=tenant_id,
        day__range=(first, until),
        metric__in=(Metric.SENDS, Metric.OUTBOUND),
    )
    found = {
        (day, metric): n
        for day, metric, n in rows.values_list("day", "metric", "value")
    }
    return [
        DayUsed(
            day, found.get((day, Metric.SENDS), 0), found.get((day, Metric.OUTBOUND), 0)
        )
        for day in (first + timedelta(days=n) for n in range(DAYS_SHOWN))
    ]
