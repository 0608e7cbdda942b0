"""Allowances on real rows: granted by plan, held, spent, begun anew each period."""

import json
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from django.db import transaction

from core import clock
from core.clock import database_now
from core.errors import InvalidRequest
from core.ids import new_id
from mailboxes.models import AuditRow, Event, Identity, Tenant
from mailboxes.services import render_instant
from quota import billing_services as billing
from quota import services as quota
from quota.billing_services import BillingChange, change_billing
from quota.caps import Caps, Reservation
from quota.catalogue import BUILT_IN
from quota.errors import BillingLimit, DailyCapReached
from quota.models import Allowance, Counter, Hold, QuotaAccount
from quota.periods import month_after
from quota.plans import INVALID, catalogue_digest
from quota.provisioning import open_account
from quota.statuses import BillingMode, Feature
from tests.factories import TenantFactory

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _billing_on(settings: Any) -> None:
    settings.PM_BILLING = "stripe"


@pytest.fixture
def metered(identity: Identity) -> Identity:
    """An identity of a tenant on the free plan, in a period that no test outlives."""
    tenant = identity.tenant
    change_billing(tenant.id, BillingChange(BillingMode.METERED), actor_key_id=None)
    start = database_now()
    QuotaAccount.objects.update(period_start=start, period_end=month_after(start))
    return identity


def grant(identity: Identity, granted: int | None, *, used: int = 0) -> None:
    of_sends(identity).update(granted=granted, used=used)


def of_sends(identity: Identity) -> Any:
    return Allowance.objects.filter(tenant=identity.tenant, feature=Feature.SENDS)


def standing(identity: Identity) -> tuple[int | None, int, int]:
    found: tuple[int | None, int, int] = (
        of_sends(identity).values_list("granted", "used", "held").get()
    )
    return found


def send(
    identity: Identity,
    units: int = 1,
    *,
    ref: str | None = None,
    cap: int = 100,
    gates: tuple[Feature, ...] = (),
) -> Reservation:
    return quota.reserve(
        identity.tenant_id,
        ref=ref or new_id("msg"),
        units=units,
        now=database_now(),
        caps=Caps(identity.id, cap, 1000),
        gates=gates,
    )


def rows_of(identity: Identity) -> list[Any]:
    """Return all that a refusal must leave as it was."""
    tenant = identity.tenant
    return [
        list(model.objects.filter(tenant=tenant).values())
        for model in (Allowance, Hold, Counter, QuotaAccount)
    ]


def test_the_printed_example_holds_to_the_unit(metered: Identity) -> None:
    # Given a plan of 1,000 of which 990 are used and 6 held
    grant(metered, 1000, used=990)
    send(metered, 6)

    # When five more are asked for, then nothing is given; four just fit
    with pytest.raises(BillingLimit) as caught:
        send(metered, 5)
    assert (caught.value.status, caught.value.retryable) == (402, False)
    period_end = QuotaAccount.objects.get(tenant=metered.tenant).period_end
    assert caught.value.details == {
        "feature": "sends",
        "granted": 1000,
        "used": 990,
        "resets_at": period_end.isoformat().replace("+00:00", "Z"),
        "upgrade_url": None,
    }
    ref = new_id("msg")
    send(metered, 4, ref=ref)
    assert standing(metered) == (1000, 990, 10)

    # When three of those four are accepted, then the fourth is given back
    quota.settle(metered.tenant_id, ref=ref, consume=3)
    assert standing(metered) == (1000, 993, 6)


def test_a_refusal_keeps_nothing(metered: Identity) -> None:
    grant(metered, 0)
    before = rows_of(metered)

    for _ in range(3):
        with pytest.raises(BillingLimit):
            send(metered)

    assert rows_of(metered) == before


def test_r06_past_the_cap_the_hold_is_not_kept_either(metered: Identity) -> None:
    send(metered, 2, cap=1)
    before = rows_of(metered)

    for _ in range(3):
        with pytest.raises(DailyCapReached) as caught:
            send(metered, 2, cap=1)
        assert caught.value.details["resets_at"]
    assert rows_of(metered) == before


def test_the_plan_is_asked_before_the_cap(metered: Identity) -> None:
    send(metered, cap=1)
    grant(metered, 1)

    with pytest.raises(BillingLimit):
        send(metered, cap=1)


def test_a_hold_that_stands_is_used_again(metered: Identity) -> None:
    grant(metered, 2)
    ref = new_id("msg")
    send(metered, 2, ref=ref)

    send(metered, 2, ref=ref)

    assert standing(metered) == (2, 0, 2)
    assert Hold.objects.filter(tenant=metered.tenant).count() == 1


def test_without_recipients_no_plan_is_asked(metered: Identity) -> None:
    grant(metered, 0)

    assert send(metered, 0, gates=(Feature.STORAGE_GB,)).identity_used == 1


@pytest.mark.parametrize(("used", "refused"), [(1, False), (2, True)])
def test_overdrawn_storage_shuts_the_gate_for_files_alone(
    metered: Identity, used: int, refused: bool, settings: Any
) -> None:
    settings.PM_UPGRADE_URL = "https://example.com/plans"
    Allowance.objects.filter(feature=Feature.STORAGE_GB).update(granted=1, used=used)
    send(metered)

    if not refused:
        assert send(metered, gates=(Feature.STORAGE_GB,)).identity_used == 2
        return
    with pytest.raises(BillingLimit) as caught:
        send(metered, gates=(Feature.STORAGE_GB,))
    assert caught.value.details == {
        "feature": "storage_gb",
        "granted": 1,
        "used": 2,
        "resets_at": None,
        "upgrade_url": "https://example.com/plans",
    }


@pytest.mark.parametrize("mode", [BillingMode.EXEMPT, BillingMode.DISABLED])
def test_only_a_metered_tenant_is_limited_and_all_are_counted(
    metered: Identity, mode: BillingMode
) -> None:
    change_billing(metered.tenant_id, BillingChange(mode), actor_key_id=None)
    ref = new_id("msg")

    send(metered, 5000, ref=ref)
    quota.settle(metered.tenant_id, ref=ref, consume=5000)

    assert standing(metered) == (None, 5000, 0)


def test_where_billing_is_off_nobody_is_limited(
    metered: Identity, settings: Any
) -> None:
    settings.PM_BILLING = "off"

    send(metered, 1001)

    assert standing(metered) == (1000, 0, 1001)


def test_more_than_was_granted_is_charged_once_it_has_left(metered: Identity) -> None:
    ref = new_id("msg")
    send(metered, 2, ref=ref)
    grant(metered, 1)

    quota.settle(metered.tenant_id, ref=ref, consume=2)
    quota.settle(metered.tenant_id, ref=new_id("msg"), consume=1)  # without a hold

    assert standing(metered) == (1, 3, 0)
    counted = Counter.objects.get(tenant=metered.tenant, metric="usage:sends")
    assert counted.value == 3
    assert date.fromisoformat(counted.bucket)


def test_a_part_that_waits_stays_held_and_is_never_denied(metered: Identity) -> None:
    ref = new_id("msg")
    send(metered, 5, ref=ref)
    grant(metered, 0)
    until = database_now() + timedelta(hours=1)

    quota.settle(metered.tenant_id, ref=ref, consume=2, keep=2, until=until)

    assert standing(metered) == (0, 2, 2)
    hold = Hold.objects.get(ref=ref)
    assert (hold.units, hold.expires_at) == (2, until + timedelta(seconds=600))


def test_402_then_a_bigger_plan_then_the_same_send_goes(metered: Identity) -> None:
    grant(metered, 1000, used=1000)
    ref = new_id("msg")
    with pytest.raises(BillingLimit):
        send(metered, ref=ref)

    wanted = BillingChange(plan_id="developer", topups={"sends": 2})
    change_billing(metered.tenant_id, wanted, actor_key_id=None)

    send(metered, ref=ref)
    assert standing(metered) == (12_000, 1000, 1)


def test_a_smaller_plan_deletes_nothing_and_refuses_more(metered: Identity) -> None:
    wanted = BillingChange(plan_id="team")
    change_billing(metered.tenant_id, wanted, actor_key_id=None)
    ref = new_id("msg")
    send(metered, 20_000, ref=ref)

    smaller = BillingChange(plan_id="free")
    change_billing(metered.tenant_id, smaller, actor_key_id=None)

    with pytest.raises(BillingLimit):
        send(metered)
    quota.settle(metered.tenant_id, ref=ref, consume=20_000)
    assert standing(metered) == (1000, 20_000, 0)


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (BillingChange(plan_id="gone"), "plan_id"),
        (BillingChange(topups={"sends": 1}), "topups"),
        (BillingChange(plan_id="free", topups={"inboxes": 1}), "topups"),
    ],
)
def test_what_the_catalogue_has_not_is_refused(
    metered: Identity, change: BillingChange, path: str
) -> None:
    before = rows_of(metered)

    with pytest.raises(InvalidRequest) as caught:
        change_billing(metered.tenant_id, change, actor_key_id=None)

    assert caught.value.details["errors"][0]["path"] == path
    assert rows_of(metered) == before


def test_a_change_is_audited_once(metered: Identity) -> None:
    AuditRow.objects.all().delete()

    for _ in range(2):
        change_billing(
            metered.tenant_id, BillingChange(plan_id="team"), actor_key_id=None
        )

    row = AuditRow.objects.get(action="tenant.billing")
    assert row.details == {
        "fields": ["plan_id"],
        "mode": "metered",
        "plan_id": "team",
        "topups": {"sends": 0, "inboxes": 0},
        "period_start": render_instant(
            QuotaAccount.objects.get(tenant=metered.tenant).period_start
        ),
        "past_due_since": None,
    }


def test_another_catalogue_grants_anew_and_keeps_what_was_used(
    metered: Identity, settings: Any
) -> None:
    grant(metered, 1000, used=7)
    other = BUILT_IN.model_dump(mode="json")
    other["plans"][0]["features"]["sends"] = 9
    settings.PM_PLAN_CATALOG = json.dumps(other)

    send(metered, 2)
    with pytest.raises(BillingLimit):
        send(metered)

    assert standing(metered) == (9, 7, 2)
    account = QuotaAccount.objects.get(tenant=metered.tenant)
    assert account.catalog_hash == catalogue_digest() != BUILT_IN.digest()


def test_a_plan_that_the_catalogue_drops_grants_what_it_did(
    metered: Identity, settings: Any
) -> None:
    change_billing(metered.tenant_id, BillingChange(plan_id="team"), actor_key_id=None)
    other = BUILT_IN.model_dump(mode="json")
    del other["plans"][2]
    settings.PM_PLAN_CATALOG = json.dumps(other)

    send(metered)

    assert standing(metered) == (100_000, 0, 1)


def test_a_period_that_is_over_ends_in_the_send_itself(metered: Identity) -> None:
    # Given a spent allowance, and a send that is still on its way
    ref = new_id("msg")
    send(metered, 3, ref=ref)
    grant(metered, 10, used=7)
    before = QuotaAccount.objects.get(tenant=metered.tenant)

    # When the period is over, and nobody's clock has said so
    clock.offset += before.period_end - database_now()
    send(metered, 7)

    # Then nothing is used yet, and what was held still is
    after = QuotaAccount.objects.get(tenant=metered.tenant)
    assert after.period_start == before.period_end
    assert after.period_end == month_after(before.period_end)
    assert standing(metered) == (10, 0, 10)

    # And it is charged to the period in which it settles
    quota.settle(metered.tenant_id, ref=ref, consume=3)
    assert standing(metered) == (10, 3, 7)


def test_a_charge_after_the_end_is_the_new_periods_own(metered: Identity) -> None:
    grant(metered, 10, used=10)
    ends = QuotaAccount.objects.get(tenant=metered.tenant).period_end
    clock.offset += ends - database_now()

    quota.settle(metered.tenant_id, ref=new_id("msg"), consume=1)

    assert billing.roll_periods() == 0
    assert standing(metered) == (10, 1, 0)


@pytest.mark.django_db(transaction=True)
def test_the_beat_begins_periods_of_tenants_that_send_nothing(
    metered: Identity,
) -> None:
    grant(metered, 10, used=10)
    idle = TenantFactory.create()
    start = database_now()
    QuotaAccount.objects.filter(tenant=idle).update(
        period_start=start, period_end=month_after(start)
    )
    clock.offset += timedelta(days=100)

    assert billing.roll_periods() == Tenant.objects.count()
    assert billing.roll_periods() == 0

    now = database_now()
    for account in QuotaAccount.objects.all():
        assert account.period_start <= now < account.period_end
    assert standing(metered) == (10, 0, 0)


@pytest.mark.parametrize(
    ("is_on", "is_own", "mode", "granted"),
    [
        ("stripe", False, "metered", 1000),
        ("stripe", True, "exempt", None),
        ("off", False, "exempt", None),
    ],
)
def test_a_new_tenant_begins_on_the_default_plan_where_billing_is_on(
    settings: Any, is_on: str, is_own: bool, mode: str, granted: int | None
) -> None:
    settings.PM_BILLING = is_on
    tenant = TenantFactory.create()
    Allowance.objects.filter(tenant=tenant).delete()
    QuotaAccount.objects.filter(tenant=tenant).delete()

    for _ in range(2):
        open_account(tenant.id, is_own=is_own)

    account = QuotaAccount.objects.get(tenant=tenant)
    assert (account.mode, account.plan_id) == (mode, "free")
    assert account.period_start.day == account.period_end.day == 1
    assert account.period_start <= datetime.now(UTC) < account.period_end
    found = dict(
        Allowance.objects.filter(tenant=tenant).values_list("feature", "granted")
    )
    assert found["sends"] == granted
    assert set(found) == set(Feature.values)


@pytest.mark.django_db(transaction=True)
def test_the_first_refusal_of_a_period_is_announced_and_no_other(
    metered: Identity,
) -> None:
    def refused() -> None:
        with pytest.raises(BillingLimit) as caught, transaction.atomic():
            send(metered)
        billing.tell_of_limit(caught.value)

    grant(metered, 0)
    for _ in range(3):
        refused()
    first = QuotaAccount.objects.get(tenant=metered.tenant)
    clock.offset += timedelta(days=40)
    for _ in range(3):
        refused()

    told = Event.objects.filter(type="billing.limit_reached").order_by("seq")
    assert [event.payload["data"]["resets_at"] for event in told] == [
        end.isoformat().replace("+00:00", "Z")
        for end in (first.period_end, month_after(first.period_end))
    ]
    assert {event.payload["tenant_id"] for event in told} == {metered.tenant_id}
    assert {event.payload["identity_id"] for event in told} == {None}


@pytest.mark.django_db(transaction=True)
def test_a_catalogue_of_no_use_raises_an_alert_until_it_is_mended(
    settings: Any,
) -> None:
    from mailboxes.models import Alert

    settings.PM_PLAN_CATALOG = '{"version": 2}'
    for _ in range(2):
        billing.check_catalogue()
    alert = Alert.objects.get(name=INVALID)
    assert alert.resolved_at is None

    settings.PM_PLAN_CATALOG = ""
    billing.check_catalogue()
    alert.refresh_from_db()
    assert alert.resolved_at is not None
