"""The account's row: locked, and brought up to date under its lock.

Whoever changes a tenant's quota locks this row first: last of all locks, and briefly.
Everything here joins the caller's transaction.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from core import clock
from core.database import execute, fetch_one
from mailboxes.services import audit
from quota.days import TenantDays
from quota.periods import Period
from quota.plans import catalogue, catalogue_digest, grace, mode_in_force
from quota.statuses import BillingMode, Feature


@dataclass(frozen=True, slots=True)
class Account:
    """A tenant's account while its row is ours.

    ``days`` are as before the wait: a change of zone counts from a midnight to come, so
    that is recent enough. So is ``asked_at``, the instant that the period is of.
    """

    days: TenantDays
    mode: BillingMode
    plan_id: str
    topups: Mapping[str, int]
    period: Period
    asked_at: datetime
    past_due_since: datetime | None = None

    @property
    def is_limited(self) -> bool:
        """Tell whether the tenant's plan counts."""
        return mode_in_force(self.mode) == BillingMode.METERED

    @property
    def is_out_of_grace(self) -> bool:
        """Tell whether the tenant's plan has been unpaid for too long."""
        since = self.past_due_since
        return (
            self.is_limited and since is not None and since + grace() <= self.asked_at
        )


def lock_account(tenant_id: str) -> Account:
    """Lock the tenant's account; a period that is over ends first.

    So do a plan that was not paid for in time, and a grant by another catalogue than
    today's. A late beat refuses nothing.
    """
    row = fetch_one(
        # of the locked row itself, columns are read after the wait
        "SELECT t.timezone, t.tz_next, a.mode, a.plan_id, a.topups, a.period_start,"
        " a.period_end, clock_timestamp(), a.catalog_hash, a.past_due_since"
        " FROM quota_accounts a"
        " JOIN tenants t ON t.id = a.tenant_id"
        " WHERE a.tenant_id = %(tenant)s FOR NO KEY UPDATE OF a",
        {"tenant": tenant_id},
    )
    if row is None:
        raise LookupError(f"{tenant_id} has no quota account")
    zone, tz_next, mode, plan_id, topups, start, end, asked_at, digest, past_due = row
    asked_at = clock.to_milliseconds(asked_at + clock.offset)
    account = Account(
        days=TenantDays.of_row(zone, json.loads(tz_next) if tz_next else None),
        mode=BillingMode(mode),
        plan_id=plan_id,
        topups=json.loads(topups),
        period=Period(start, end).at(asked_at),
        asked_at=asked_at,
        past_due_since=past_due,
    )
    if account.period.end != end:
        begin(tenant_id, account.period)
    if account.is_out_of_grace:
        return _end_grace(tenant_id, account)
    if account.is_limited and digest != catalogue_digest():
        grant(tenant_id, account)
    return account


def _end_grace(tenant_id: str, account: Account) -> Account:
    """Give a tenant that has not paid the default plan; what it used stays."""
    plan_id = catalogue().default_plan
    after = replace(account, plan_id=plan_id, past_due_since=None)
    execute(
        "UPDATE quota_accounts SET plan_id = %(plan)s, past_due_since = NULL"
        " WHERE tenant_id = %(tenant)s",
        {"tenant": tenant_id, "plan": plan_id},
    )
    grant(tenant_id, after)
    audit(
        "tenant.billing",
        tenant_id=tenant_id,
        target_type="tenant",
        target_id=tenant_id,
        details={"fields": ["plan_id"], "plan_id": plan_id, "reason": "past_due"},
    )
    return after


def begin(tenant_id: str, period: Period) -> None:
    """Begin a period: nothing is used yet, and what is held stays held."""
    execute(
        "WITH begun AS (UPDATE quota_accounts"
        " SET period_start = %(start)s, period_end = %(end)s"
        " WHERE tenant_id = %(tenant)s)"
        " UPDATE allowances SET used = 0"
        " WHERE tenant_id = %(tenant)s AND feature = 'sends'",
        {"tenant": tenant_id, "start": period.start, "end": period.end},
    )


def grant(tenant_id: str, account: Account) -> None:
    """Write what mode, plan and top-ups grant by today's catalogue; never what is used.

    A plan that the catalogue no longer has grants what it did.
    """
    granted: Mapping[Feature, int | None] = dict.fromkeys(Feature)
    if account.mode == BillingMode.METERED:
        granted = catalogue().granted(account.plan_id, account.topups) or {}
    execute(
        "WITH noted AS (UPDATE quota_accounts SET catalog_hash = %(digest)s"
        " WHERE tenant_id = %(tenant)s)"
        " INSERT INTO allowances (tenant_id, feature, granted)"
        " SELECT %(tenant)s, * FROM unnest(%(features)s::text[], %(granted)s::bigint[])"
        " ON CONFLICT (tenant_id, feature) DO UPDATE SET granted = EXCLUDED.granted",
        {
            "tenant": tenant_id,
            "digest": catalogue_digest(),
            "features": [str(feature) for feature in granted],
            "granted": list(granted.values()),
        },
    )
