"""What a tenant has used, as the API shows it. Read without a lock."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from datetime import date, datetime
from typing import Any, Final

from mailboxes.services import render_instant
from quota.allowances import Standing
from quota.models import QuotaAccount, UsageDay
from quota.overview import period_at, standings
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

    A period that is over by ``now`` has ended, and the catalogue in force is what
    grants, whether or not anybody has written that down yet.
    """
    account = QuotaAccount.objects.get(tenant_id=tenant_id)
    mode = mode_in_force(account.mode)
    found = {one.feature: one for one in standings(account, now=now)}
    if mode != BillingMode.METERED:
        found = {f: replace(one, granted=None) for f, one in found.items()}
    elif (anew := _granted_anew(account)) is not None:
        found = {f: replace(one, granted=anew[f]) for f, one in found.items()}
    ends = {Feature.SENDS: period_at(account, now).end}
    shown = [_feature_json(found[f], ends.get(f)) for f in SHOWN if f in found]
    return {"billing": mode, "features": shown}


def _granted_anew(account: QuotaAccount) -> Mapping[Feature, int | None] | None:
    """Return what a catalogue grants that the account has not been granted by yet."""
    if account.catalog_hash == catalogue_digest():
        return None
    return catalogue().granted(account.plan_id, account.topups)


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
