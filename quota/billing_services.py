"""A tenant's plan changed, its periods begun, its limit announced."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Q

from core.clock import database_now
from core.errors import InvalidRequest
from core.metrics import QUOTA_HOLD_DENIED, count
from core.sweeps import one_by_one
from mailboxes.services import NewEvent, audit, publish_of_tenant, render_instant
from quota.accounts import Account, begin, grant, lock_account
from quota.errors import BillingLimit
from quota.models import Allowance, QuotaAccount
from quota.periods import Period
from quota.plans import alert_of_catalogue, catalogue, grace, is_billing_on
from quota.statuses import BillingMode

SWEEP_BATCH = 500
TOLD = ("feature", "granted", "used", "resets_at")
"""What of a refusal its event repeats."""


@dataclass(frozen=True, slots=True)
class BillingChange:
    """What of a tenant's billing is to change; None, and a top-up not named, stays.

    ``period_start`` begins a period if it is later than the one that runs; told again,
    or late, it changes nothing. ``is_paid`` ends ``past_due_since``.
    """

    mode: BillingMode | None = None
    plan_id: str | None = None
    topups: Mapping[str, int] = field(default_factory=dict)
    period_start: datetime | None = None
    past_due_since: datetime | None = None
    is_paid: bool = False

    def of(self, account: Account) -> Account:
        """Return the account as it is to be."""
        return replace(
            account,
            mode=account.mode if self.mode is None else self.mode,
            plan_id=account.plan_id if self.plan_id is None else self.plan_id,
            topups={**account.topups, **self.topups},
            past_due_since=self._past_due(account),
        )

    def _past_due(self, account: Account) -> datetime | None:
        return None if self.is_paid else self.past_due_since or account.past_due_since


@transaction.atomic
def change_billing(
    tenant_id: str, change: BillingChange, *, actor_key_id: str | None
) -> None:
    """Give a tenant another mode, plan or top-ups: granted at once, used stays.

    Audited if it changes anything. Raises InvalidRequest with the path ``plan_id`` for
    a plan that the catalogue has not, ``topups`` for ones that the plan has not, and
    the name of an instant that is still to come.
    """
    before = lock_account(tenant_id)
    after = change.of(before)
    _check(change, after)
    after = replace(after, period=_period_of(change, after))
    changed = _differing(before, after)
    if not changed:
        return
    QuotaAccount.objects.filter(tenant_id=tenant_id).update(
        mode=after.mode,
        plan_id=after.plan_id,
        topups=dict(after.topups),
        past_due_since=after.past_due_since,
    )
    if after.period != before.period:
        begin(tenant_id, after.period)
    grant(tenant_id, after)
    audit(
        "tenant.billing",
        tenant_id=tenant_id,
        target_type="tenant",
        target_id=tenant_id,
        details={"fields": changed, **billing_of(after)},
        actor_key_id=actor_key_id,
    )


def billing_of(account: Account) -> dict[str, Any]:
    """Return what was set for a tenant (REST contract, section 3)."""
    past_due = account.past_due_since
    return {
        "mode": str(account.mode),
        "plan_id": account.plan_id,
        "topups": {"sends": 0, "inboxes": 0, **account.topups},
        "period_start": render_instant(account.period.start),
        "past_due_since": past_due and render_instant(past_due),
    }


def _period_of(change: BillingChange, after: Account) -> Period:
    """Return the period that a change leads to: a later one, or the one that runs."""
    start = change.period_start
    if start is None or start <= after.period.start:
        return after.period
    plan = catalogue().plan(after.plan_id)
    is_paid = plan is not None and plan.price > 0
    return Period.begun(start, is_paid=is_paid).at(after.asked_at)


def _check(change: BillingChange, after: Account) -> None:
    plan = catalogue().plan(after.plan_id)
    if change.plan_id is not None and plan is None:
        raise InvalidRequest.at("plan_id", "The catalogue has no such plan.")
    if any(change.topups.values()) and (plan is None or not plan.topups):
        raise InvalidRequest.at("topups", "The plan takes no top-ups.")
    for name in ("period_start", "past_due_since"):
        instant = getattr(change, name)
        if instant is not None and instant > after.asked_at:
            raise InvalidRequest.at(name, "This instant is still to come.")


def _differing(before: Account, after: Account) -> list[str]:
    one, other = billing_of(before), billing_of(after)
    return sorted(name for name, value in one.items() if other[name] != value)


def tell_of_limit(refused: BillingLimit) -> None:
    """Count a refusal, and announce the first of its feature in a period.

    A transaction of its own: the refused one has to be rolled back first.
    """
    count(QUOTA_HOLD_DENIED, refused.details["feature"])
    if refused.is_first:
        _tell_of_limit(refused)


@transaction.atomic(durable=True)
def _tell_of_limit(refused: BillingLimit) -> None:
    tenant_id = refused.tenant_id
    lock_account(tenant_id)
    start = refused.period.start
    unmarked = Allowance.objects.filter(
        Q(limit_marked_for__isnull=True) | Q(limit_marked_for__lt=start),
        tenant_id=tenant_id,
        feature=refused.details["feature"],
    )
    if unmarked.update(limit_marked_for=start):
        event = NewEvent("billing.limit_reached", _told(refused.details))
        publish_of_tenant(event, tenant_id=tenant_id, now=database_now())


def _told(details: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the event says of a refusal (REST contract, section 5.2)."""
    return {name: details[name] for name in TOLD}


def roll_periods() -> int:
    """Begin the periods that are due, end graces, and return of how many tenants.

    Sends do it for themselves; this is for the tenants that send nothing.
    """
    now = database_now()
    due = Q(period_end__lte=now)
    if is_billing_on():
        due |= Q(past_due_since__lte=now - grace(), mode=BillingMode.METERED)
    accounts = QuotaAccount.objects.filter(due)
    ids = list(accounts.values_list("tenant_id", flat=True)[:SWEEP_BATCH])
    return one_by_one("period_roll", ids, _roll_one)


@transaction.atomic(durable=True)
def _roll_one(tenant_id: str) -> bool:
    lock_account(tenant_id)
    return True


@transaction.atomic(durable=True)
def check_catalogue() -> None:
    """Alert of a plan catalogue that cannot be used, and resolve that once it can."""
    alert_of_catalogue()
