"""What a payment provider tells of a plan: when its period begins, what is overdue."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import transaction

from core import clock
from core.clock import database_now
from core.errors import InvalidRequest
from core.ids import new_id
from mailboxes.models import AuditRow, Tenant
from quota import billing_services as billing
from quota import services as quota
from quota.billing_services import BillingChange
from quota.errors import BillingLimit
from quota.models import Allowance, QuotaAccount
from quota.periods import Period, month_after
from quota.statuses import BillingMode
from tests.factories import TenantFactory
from tests.support.counters import counts

pytestmark = pytest.mark.django_db
SPAN = ("period_start", "period_end")


@pytest.fixture
def paying(settings: Any) -> Tenant:
    """A tenant on a plan that is paid for, in a period that began a day ago."""
    settings.PM_BILLING = "stripe"
    tenant = TenantFactory.create()
    start = database_now() - timedelta(days=1)
    QuotaAccount.objects.update(period_start=start, period_end=month_after(start))
    change(tenant, BillingChange(BillingMode.METERED, "developer"))
    Allowance.objects.filter(feature="sends").update(used=7)
    return tenant


def change(tenant: Tenant, wanted: BillingChange) -> None:
    billing.change_billing(tenant.id, wanted, actor_key_id=None)


def period_of(tenant: Tenant) -> Period:
    return Period(*QuotaAccount.objects.values_list(*SPAN).get(tenant=tenant))


def standing(tenant: Tenant) -> tuple[int | None, int, int]:
    rows = Allowance.objects.filter(tenant=tenant, feature="sends")
    found: tuple[int | None, int, int] = rows.values_list(
        "granted", "used", "held"
    ).get()
    return found


def test_a_later_period_resets_once_however_often_it_is_told(paying: Tenant) -> None:
    # Given two recipients on their way, and a payment that begins a period
    ref, now = new_id("msg"), database_now()
    quota.reserve(paying.id, ref=ref, units=2, now=now)
    wanted = BillingChange(period_start=now)

    change(paying, wanted)

    # Then nothing is used, and what is held stays held
    assert standing(paying) == (10_000, 0, 2)
    assert period_of(paying) == Period(now, month_after(now))

    # And told again, it takes back nothing of what was used meanwhile
    quota.settle(paying.id, ref=ref, consume=2)
    change(paying, wanted)
    assert standing(paying) == (10_000, 2, 0)


def test_an_earlier_period_that_comes_late_changes_nothing(paying: Tenant) -> None:
    before = period_of(paying)

    change(paying, BillingChange(period_start=before.start - timedelta(days=3)))

    assert (period_of(paying), standing(paying)) == (before, (10_000, 7, 0))


def test_a_period_that_was_told_months_late_is_the_one_of_today(
    paying: Tenant,
) -> None:
    start = period_of(paying).start + timedelta(hours=1)
    clock.offset += timedelta(days=70)
    quota.release(paying.id, ref=new_id("msg"))
    Allowance.objects.filter(feature="sends").update(used=5)

    change(paying, BillingChange(period_start=start))

    # the period that runs began later than this one
    assert standing(paying) == (10_000, 5, 0)


def test_who_leaves_a_paid_plan_has_until_the_month_ends(paying: Tenant) -> None:
    now = database_now()

    change(paying, BillingChange(plan_id="free", period_start=now))

    assert period_of(paying) == Period(now, Period.month_of(now).end)
    assert standing(paying) == (1000, 0, 0)


@pytest.mark.parametrize("name", ["period_start", "past_due_since"])
def test_an_instant_to_come_is_refused_with_its_path(paying: Tenant, name: str) -> None:
    before = list(QuotaAccount.objects.values())
    tomorrow = database_now() + timedelta(days=1)

    with pytest.raises(InvalidRequest) as caught:
        change(paying, BillingChange(**{name: tomorrow}))  # type: ignore[arg-type]

    assert caught.value.details["errors"][0]["path"] == name
    assert list(QuotaAccount.objects.values()) == before


def test_an_overdue_plan_is_kept_for_the_grace_and_no_longer(
    paying: Tenant, settings: Any
) -> None:
    settings.PM_BILLING_GRACE_DAYS = 2
    change(paying, BillingChange(past_due_since=database_now()))
    AuditRow.objects.all().delete()

    # When almost two days are over, then the plan is what it was
    clock.offset += timedelta(days=2, seconds=-5)
    quota.reserve(paying.id, ref=new_id("msg"), units=1000, now=database_now())
    assert standing(paying) == (10_000, 7, 1000)

    # When they are over, then the send itself is judged by the default plan
    clock.offset += timedelta(seconds=5)
    with pytest.raises(BillingLimit):
        quota.reserve(paying.id, ref=new_id("msg"), units=1, now=database_now())
    quota.release(paying.id, ref=new_id("msg"))

    # And nothing that was used or held is forgotten; it is audited, once
    assert standing(paying) == (1000, 7, 1000)
    account = QuotaAccount.objects.get(tenant=paying)
    assert (account.plan_id, account.past_due_since) == ("free", None)
    row = AuditRow.objects.get(action="tenant.billing")
    assert row.details is not None
    assert row.details["reason"] == "past_due"
    assert row.actor_key_id is None


def test_who_pays_in_time_keeps_the_plan(paying: Tenant) -> None:
    change(paying, BillingChange(past_due_since=database_now()))
    change(paying, BillingChange(is_paid=True))

    clock.offset += timedelta(days=8)
    quota.release(paying.id, ref=new_id("msg"))

    assert QuotaAccount.objects.get(tenant=paying).plan_id == "developer"


@pytest.mark.django_db(transaction=True)
def test_the_beat_ends_the_grace_of_who_sends_nothing(paying: Tenant) -> None:
    change(paying, BillingChange(past_due_since=database_now()))
    exempt = TenantFactory.create()
    since = datetime(2026, 1, 1, tzinfo=UTC)
    QuotaAccount.objects.filter(tenant=exempt).update(past_due_since=since)
    assert billing.roll_periods() == 0

    clock.offset += timedelta(days=7)

    assert [billing.roll_periods() for _ in range(2)] == [1, 0]
    assert standing(paying) == (1000, 7, 0)
    assert QuotaAccount.objects.get(tenant=exempt).past_due_since == since


@pytest.mark.django_db(transaction=True)
def test_what_is_denied_expires_or_comes_late_is_counted(paying: Tenant) -> None:
    with counts("quota_consumed_without_hold_total", 1):
        for n in range(2):  # nothing is charged the second time
            with transaction.atomic():
                quota.settle(paying.id, ref=new_id("msg"), consume=1 - n)

    with transaction.atomic():
        quota.reserve(paying.id, ref=new_id("msg"), units=1, now=database_now())
    clock.offset += timedelta(seconds=600)
    with counts("quota_hold_expired_total", 1, feature="sends"):
        assert [quota.sweep_holds() for _ in range(2)] == [1, 0]

    Allowance.objects.update(granted=0)
    with counts("quota_hold_denied_total", 3, feature="sends"):
        for _ in range(3):
            with pytest.raises(BillingLimit) as caught, transaction.atomic():
                quota.reserve(paying.id, ref=new_id("msg"), units=1, now=database_now())
            billing.tell_of_limit(caught.value)
