"""What is counted by looking: a tenant's identities, and the domains of its own.

``used`` of a count is the number of its rows, counted under the account's lock by every
transaction that makes or removes one, after it has: so it cannot drift from them, and
no unit is lost with a transaction that never commits. Who makes one in several
transactions sets it aside first (quota, part A5, "Counts"). All of it joins the
caller's transaction, and the account is its last lock.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final, LiteralString

import structlog

from core import metrics
from core.database import execute, fetch_all, fetch_one
from core.ids import new_id
from quota.accounts import Account, lock_account
from quota.allowances import Standing, refuse_if_spent
from quota.counting import HOLD_FOR
from quota.plans import upgrade_url
from quota.statuses import Feature

GATES: Final = (Feature.STORAGE_GB,)
"""What must not be overdrawn by who wants one more."""

_ROWS: Final[Mapping[Feature, LiteralString]] = {
    Feature.INBOXES: "SELECT count(*) AS n FROM identities"
    " WHERE tenant_id = %(tenant)s AND status IN ('active', 'paused')",
    Feature.CUSTOM_DOMAINS: "SELECT count(*) AS n FROM domains"
    " WHERE tenant_id = %(tenant)s AND kind <> 'platform' AND state <> 'removed'",
}
COUNTED: Final = tuple(_ROWS)

log = structlog.get_logger()


def hold_count(tenant_id: str, feature: Feature, *, ref: str) -> None:
    """Set one aside for ten minutes; ``ref`` is the id of what is to be made.

    For what is not made in this very transaction; ``count_new`` uses it up, and
    ``release_count`` gives it back. One that stands already is kept. Raises
    BillingLimit, and has set nothing aside then.
    """
    account = lock_account(tenant_id)
    if _is_held(tenant_id, feature, ref):
        return
    _recount(tenant_id, feature, change=0)
    _refuse_if_spent(tenant_id, account, feature, made=0)
    execute(
        "WITH held AS (INSERT INTO holds (id, tenant_id, feature, ref, units,"
        " expires_at) VALUES (%(id)s, %(tenant)s, %(feature)s, %(ref)s, 1,"
        " %(expires)s))"
        " UPDATE allowances SET held = held + 1"
        " WHERE tenant_id = %(tenant)s AND feature = %(feature)s",
        {
            "id": new_id("hld"),
            "tenant": tenant_id,
            "feature": str(feature),
            "ref": ref,
            "expires": account.asked_at + HOLD_FOR,
        },
    )


def count_new(tenant_id: str, feature: Feature, *, ref: str) -> None:
    """Count what the caller's transaction has just made, under its id.

    What was held for it is used up. Without a hold there must be room: raises
    BillingLimit, after which the caller makes nothing.
    """
    account = lock_account(tenant_id)
    was_held = _end_hold(tenant_id, feature, ref)
    _recount(tenant_id, feature, change=1)
    if not was_held:
        _refuse_if_spent(tenant_id, account, feature, made=1)


def count_gone(tenant_id: str, feature: Feature) -> None:
    """Count one less: the caller's transaction has just ended it."""
    lock_account(tenant_id)
    _recount(tenant_id, feature, change=-1)


def release_count(tenant_id: str, feature: Feature, *, ref: str) -> None:
    """Give back what was set aside for what is not made; without a hold, nothing."""
    lock_account(tenant_id)
    _end_hold(tenant_id, feature, ref)


def expire_count(tenant_id: str, feature: Feature, *, ref: str) -> bool:
    """Give back a hold that ran out, if it still has; tell whether it had.

    Whoever held it may have made something all the same, so what is counted is not
    known to be right.
    """
    account = lock_account(tenant_id)
    if not _end_hold(tenant_id, feature, ref, expired_at=account.asked_at):
        return False
    execute(
        "UPDATE allowances SET stale = true"
        " WHERE tenant_id = %(tenant)s AND feature = %(feature)s",
        {"tenant": tenant_id, "feature": str(feature)},
    )
    return True


def count_again(tenant_id: str) -> None:
    """Count all that is counted, unless some of it is being made just now.

    The caller holds the account.
    """
    for feature in COUNTED:
        if not _is_held(tenant_id, feature):
            _recount(tenant_id, feature, change=0)


def count_unlimited(tenant_id: str) -> None:
    """Count what the operator's own commands have made: no plan limits those."""
    lock_account(tenant_id)
    for feature in COUNTED:
        _recount(tenant_id, feature, change=None)


def _is_held(tenant_id: str, feature: Feature, ref: str | None = None) -> bool:
    found = fetch_one(
        "SELECT 1 FROM holds WHERE tenant_id = %(tenant)s AND feature = %(feature)s"
        " AND (%(ref)s::text IS NULL OR ref = %(ref)s) LIMIT 1",
        {"tenant": tenant_id, "feature": str(feature), "ref": ref},
    )
    return found is not None


def _end_hold(
    tenant_id: str, feature: Feature, ref: str, expired_at: datetime | None = None
) -> bool:
    """End a hold, one that has expired if an instant is given; tell whether it did."""
    ended = execute(
        "WITH ended AS (DELETE FROM holds"
        " WHERE tenant_id = %(tenant)s AND feature = %(feature)s AND ref = %(ref)s"
        " AND (%(at)s::timestamptz IS NULL OR expires_at <= %(at)s) RETURNING units)"
        " UPDATE allowances a SET held = a.held - ended.units FROM ended"
        " WHERE a.tenant_id = %(tenant)s AND a.feature = %(feature)s",
        {"tenant": tenant_id, "feature": str(feature), "ref": ref, "at": expired_at},
    )
    return ended > 0


def _recount(tenant_id: str, feature: Feature, *, change: int | None) -> None:
    """Write how many rows there are; ``change`` is what the caller's own should make.

    Any other difference is a drift, and counted as one, unless the count was not known
    to be right, or nobody knows what it should be (None).
    """
    row = fetch_one(
        f"WITH before AS (SELECT used, stale FROM allowances"  # noqa: S608  constants
        f" WHERE tenant_id = %(tenant)s AND feature = %(feature)s),"
        f" counted AS ({_ROWS[feature]})"
        f" UPDATE allowances SET used = counted.n, stale = false FROM before, counted"
        f" WHERE tenant_id = %(tenant)s AND feature = %(feature)s"
        f" RETURNING allowances.used - before.used, before.stale",
        {"tenant": tenant_id, "feature": str(feature)},
    )
    if row is None or change is None:
        return
    difference, was_stale = row
    if difference != change and not was_stale:
        log.warning(
            "quota_count_drift",
            tenant_id=tenant_id,
            code=str(feature),
            count=difference - change,
        )
        metrics.count(metrics.QUOTA_COUNT_DRIFT, str(feature))


def _refuse_if_spent(
    tenant_id: str, account: Account, feature: Feature, *, made: int
) -> None:
    """Raise BillingLimit unless there is, or was before it was made, room for one."""
    if not account.is_limited:
        return
    rows = fetch_all(
        "SELECT feature, granted, used, held,"
        " coalesce(limit_marked_for >= %(period)s, false) FROM allowances"
        " WHERE tenant_id = %(tenant)s AND feature = ANY(%(features)s::text[])",
        {
            "tenant": tenant_id,
            "period": account.period.start,
            "features": [str(one) for one in (feature, *GATES)],
        },
    )
    found = [Standing(Feature(name), *rest) for name, *rest in rows]
    refuse_if_spent(
        [_without(one, made) if one.feature == feature else one for one in found],
        tenant_id=tenant_id,
        wanted=feature,
        units=1,
        gates=GATES,
        period=account.period,
        upgrade_url=upgrade_url(),
    )


def _without(standing: Standing, made: int) -> Standing:
    return replace(standing, used=standing.used - made)
