"""What a tenant has used, as the API shows it. Read without a lock."""

from collections import defaultdict
from collections.abc import Mapping
from datetime import date, datetime
from typing import Any, Final

from mailboxes.services import render_instant
from quota.allowances import Standing
from quota.models import Allowance, QuotaAccount, UsageDay
from quota.periods import Period
from quota.plans import catalogue, catalogue_digest, mode_in_force
from quota.statuses import BillingMode, Feature, Metric

SHOWN: Final = (
    Feature.INBOXES,
    Feature.SENDS,
    Feature.CUSTOM_DOMAINS,
    Feature.STORAGE_GB,
)


def usage_json(tenant_id: str, *, now: datetime) -> dict[str, Any]:
    """Return a tenant's mode and how each feature stands (REST contract, 2.11).

    As the next send would find it: a period that is over by ``now`` has ended, and the
    catalogue in force is what grants.
    """
    account = QuotaAccount.objects.get(tenant_id=tenant_id)
    mode = mode_in_force(account.mode)
    stored = Period(account.period_start, account.period_end)
    period = stored.at(now)
    rows = {row.feature: row for row in Allowance.objects.filter(tenant_id=tenant_id)}
    granted = _granted(account, rows) if mode == BillingMode.METERED else {}
    features = []
    for feature in SHOWN:
        row = rows.get(feature)
        has_ended = feature == Feature.SENDS and period != stored
        used = 0 if row is None or has_ended else row.used
        held = 0 if row is None else row.held
        standing = Standing(feature, granted.get(feature), used, held)
        ends = period.end if feature == Feature.SENDS else None
        features.append(_feature_json(standing, ends))
    return {"billing": mode, "features": features}


def _granted(
    account: QuotaAccount, rows: Mapping[str, Allowance]
) -> Mapping[Any, int | None]:
    """Return what is granted; by a catalogue that is new, once it is looked at."""
    if account.catalog_hash != catalogue_digest():
        anew = catalogue().granted(account.plan_id, account.topups)
        if anew is not None:
            return anew
    return {feature: row.granted for feature, row in rows.items()}


def _feature_json(standing: Standing, ends: datetime | None) -> dict[str, Any]:
    return {
        "feature": str(standing.feature),
        "granted": standing.granted,
        "used": standing.used,
        "remaining": standing.remaining,
        "unlimited": standing.granted is None,
        "resets_at": ends and render_instant(ends),
    }


def days_json(tenant_id: str, first: date, last: date) -> list[dict[str, Any]]:
    """Return what was used on each day that has been written down, oldest first."""
    found = UsageDay.objects.filter(tenant_id=tenant_id, day__range=(first, last))
    days: defaultdict[date, dict[str, int]] = defaultdict(
        lambda: dict.fromkeys(Metric.values, 0)
    )
    for day, metric, value in found.order_by("day").values_list(
        "day", "metric", "value"
    ):
        days[day][metric] = value
    return [{"day": day.isoformat(), **used} for day, used in days.items()]
