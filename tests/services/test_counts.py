"""Identities and domains that are counted: held, made, gone, and counted again."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction

from core import clock
from core.clock import database_now
from core.ids import new_id
from domains.models import Domain
from domains.statuses import DomainState
from mailboxes.models import Identity
from quota import counts, services, usage_services
from quota.billing_services import BillingChange, change_billing
from quota.errors import BillingLimit
from quota.models import Allowance, Hold
from quota.statuses import BillingMode, Feature
from tests.factories import DomainFactory, IdentityFactory
from tests.support.counters import counts as raises
from tests.support.counters import value_of

pytestmark = pytest.mark.django_db

DOMAINS, INBOXES = Feature.CUSTOM_DOMAINS, Feature.INBOXES
DRIFT = "quota_count_drift_total"


@pytest.fixture
def tenant_id(settings: Any, identity: Identity) -> str:
    """A tenant with one identity, on a plan of 5 domains and 10 identities."""
    settings.PM_BILLING = "stripe"
    wanted = BillingChange(BillingMode.METERED, plan_id="developer")
    change_billing(identity.tenant_id, wanted, actor_key_id=None)
    Domain.objects.filter(tenant=identity.tenant).update(state=DomainState.REMOVED)
    return identity.tenant_id


def row(tenant_id: str, feature: Feature = DOMAINS) -> Allowance:
    return Allowance.objects.get(tenant_id=tenant_id, feature=feature)


def standing(tenant_id: str, feature: Feature = DOMAINS) -> tuple[int, int]:
    return row(tenant_id, feature).used, row(tenant_id, feature).held


def grant(tenant_id: str, granted: int, feature: Feature = DOMAINS) -> None:
    found = Allowance.objects.filter(tenant_id=tenant_id, feature=feature)
    found.update(granted=granted)


def make(tenant_id: str, ref: str | None = None) -> Domain:
    """Make a domain, and count it."""
    with transaction.atomic():
        made = DomainFactory.create(id=ref or new_id("dom"), tenant_id=tenant_id)
        counts.count_new(tenant_id, DOMAINS, ref=made.id)
    return made


def test_what_is_held_is_used_up_by_what_is_made(tenant_id: str) -> None:
    grant(tenant_id, 2)
    ref = new_id("dom")
    for _ in range(2):  # held again, it is held once
        counts.hold_count(tenant_id, DOMAINS, ref=ref)
    assert standing(tenant_id) == (0, 1)

    make(tenant_id, ref)

    assert standing(tenant_id) == (1, 0)
    assert not Hold.objects.exists()


def test_with_a_hold_there_is_room_however_little_is_left(tenant_id: str) -> None:
    ref = new_id("dom")
    counts.hold_count(tenant_id, DOMAINS, ref=ref)
    grant(tenant_id, 0)

    make(tenant_id, ref)

    assert standing(tenant_id) == (1, 0)


def test_the_last_one_goes_to_who_held_it(tenant_id: str) -> None:
    grant(tenant_id, 1)
    counts.hold_count(tenant_id, DOMAINS, ref=new_id("dom"))

    for act in (
        lambda: counts.hold_count(tenant_id, DOMAINS, ref=new_id("dom")),
        lambda: make(tenant_id),
    ):
        with pytest.raises(BillingLimit) as caught:
            act()
        assert caught.value.details == {
            "feature": "custom_domains",
            "granted": 1,
            "used": 0,
            "resets_at": None,
            "upgrade_url": None,
        }
    assert standing(tenant_id) == (0, 1)
    assert Hold.objects.count() == 1
    assert not Domain.objects.exclude(state=DomainState.REMOVED).exists()


def test_what_was_held_for_a_failure_is_given_back_once(tenant_id: str) -> None:
    ref = new_id("dom")
    counts.hold_count(tenant_id, DOMAINS, ref=ref)

    for _ in range(2):
        counts.release_count(tenant_id, DOMAINS, ref=ref)

    assert standing(tenant_id) == (0, 0)


def test_what_is_removed_counts_no_more(tenant_id: str) -> None:
    domain = make(tenant_id)
    make(tenant_id)

    with raises(DRIFT, 0, feature="custom_domains"):
        Domain.objects.filter(id=domain.id).update(state=DomainState.REMOVED)
        counts.count_gone(tenant_id, DOMAINS)

    assert standing(tenant_id) == (1, 0)


@pytest.mark.parametrize("is_held", [False, True])
def test_overdrawn_storage_keeps_more_from_being_made(
    tenant_id: str, is_held: bool
) -> None:
    gate = Allowance.objects.filter(tenant_id=tenant_id, feature=Feature.STORAGE_GB)
    gate.update(used=11)
    act = counts.hold_count if is_held else counts.count_new

    with pytest.raises(BillingLimit) as caught, transaction.atomic():
        act(tenant_id, DOMAINS, ref=new_id("dom"))

    assert caught.value.details["feature"] == "storage_gb"
    assert standing(tenant_id) == (0, 0)


@pytest.mark.parametrize("mode", [BillingMode.EXEMPT, BillingMode.DISABLED])
def test_who_has_no_plan_is_counted_and_not_limited(
    tenant_id: str, mode: BillingMode
) -> None:
    change_billing(tenant_id, BillingChange(mode), actor_key_id=None)

    for _ in range(6):
        make(tenant_id)

    assert standing(tenant_id) == (6, 0)


def test_where_billing_is_off_nobody_is_limited(tenant_id: str, settings: Any) -> None:
    settings.PM_BILLING = "off"
    grant(tenant_id, 0)

    make(tenant_id)

    assert standing(tenant_id) == (1, 0)


@pytest.mark.django_db(transaction=True)
def test_a_hold_that_runs_out_is_given_back_and_the_next_counts_the_rows(
    tenant_id: str,
) -> None:
    # Given one that was held, and made by somebody who died before it was counted
    make(tenant_id)
    counts.hold_count(tenant_id, DOMAINS, ref=new_id("dom"))
    DomainFactory.create(tenant_id=tenant_id)

    # When its time is over
    assert services.sweep_holds() == 0
    clock.offset += timedelta(seconds=601)
    with raises("quota_hold_expired_total", 1, feature="custom_domains"):
        assert services.sweep_holds() == 1
    assert standing(tenant_id) == (1, 0)
    assert row(tenant_id).stale

    # Then the next to hold one finds it counted, and nobody takes that for a drift
    grant(tenant_id, 2)
    with raises(DRIFT, 0, feature="custom_domains"), pytest.raises(BillingLimit):
        counts.hold_count(tenant_id, DOMAINS, ref=new_id("dom"))
    grant(tenant_id, 3)
    counts.hold_count(tenant_id, DOMAINS, ref=new_id("dom"))
    assert standing(tenant_id) == (2, 1)
    assert not row(tenant_id).stale


@pytest.mark.django_db(transaction=True)
def test_the_roll_up_seeds_the_counts_and_corrects_what_has_drifted(
    tenant_id: str,
) -> None:
    # Given rows that are older than the counts
    DomainFactory.create(tenant_id=tenant_id)
    assert standing(tenant_id, INBOXES) == standing(tenant_id) == (0, 0)

    # When they are counted for the first time, then that is no drift
    before = [value_of(DRIFT, feature=name) for name in ("inboxes", "custom_domains")]
    usage_services.roll_up()
    assert standing(tenant_id, INBOXES) == standing(tenant_id) == (1, 0)
    after = [value_of(DRIFT, feature=name) for name in ("inboxes", "custom_domains")]
    assert after == before

    # But it is when rows come behind our back
    IdentityFactory.create(tenant_id=tenant_id)
    clock.offset += timedelta(hours=1)
    with (
        raises(DRIFT, 1, feature="inboxes"),
        raises(DRIFT, 0, feature="custom_domains"),
    ):
        usage_services.roll_up()
    assert standing(tenant_id, INBOXES) == (2, 0)


@pytest.mark.django_db(transaction=True)
def test_the_roll_up_passes_over_what_is_being_made(tenant_id: str) -> None:
    ref = new_id("dom")
    counts.hold_count(tenant_id, DOMAINS, ref=ref)
    DomainFactory.create(tenant_id=tenant_id)

    usage_services.roll_up()
    assert standing(tenant_id) == (0, 1)

    counts.release_count(tenant_id, DOMAINS, ref=ref)
    clock.offset += timedelta(hours=1)
    usage_services.roll_up()
    assert standing(tenant_id) == (1, 0)


def test_a_hold_of_a_count_is_no_sends(tenant_id: str, identity: Identity) -> None:
    counts.hold_count(tenant_id, DOMAINS, ref=new_id("dom"))
    ref, now = new_id("msg"), database_now()
    services.reserve(tenant_id, ref=ref, units=2, now=now)

    services.settle(tenant_id, ref=ref, consume=2)

    assert standing(tenant_id, Feature.SENDS) == (2, 0)
    assert standing(tenant_id) == (0, 1)
