"""An allowance that many want at once: each unit goes to one, and comes back once."""

from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.db import transaction

from core.clock import database_now
from core.ids import new_id
from mailboxes.models import Event, Identity
from quota.billing_services import BillingChange, change_billing, tell_of_limit
from quota.caps import Caps, Reservation
from quota.errors import BillingLimit
from quota.models import Allowance, Counter, Hold
from quota.services import reserve, settle, sweep_holds
from quota.statuses import BillingMode
from tests.factories import AddressFactory
from tests.support.racers import Racers

MANY = 50
ROUNDS = 12
EXPIRIES = 500

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def metered(settings: Any) -> Identity:
    """An identity whose tenant has a plan."""
    settings.PM_BILLING = "stripe"
    identity = AddressFactory.create().identity
    wanted = BillingChange(BillingMode.METERED)
    change_billing(identity.tenant_id, wanted, actor_key_id=None)
    return identity


@pytest.fixture
def crowd() -> Iterator[Racers]:
    """As many threads as want the last unit."""
    threads = Racers(MANY)
    yield threads
    threads.close()


def _send(identity: Identity) -> Reservation:
    try:
        with transaction.atomic(durable=True):
            return reserve(
                identity.tenant_id,
                ref=new_id("msg"),
                units=1,
                now=database_now(),
                caps=Caps(identity.id, 10_000, 10_000),
            )
    except BillingLimit as refused:
        tell_of_limit(refused)
        raise


def test_the_last_unit_goes_to_one_of_fifty(metered: Identity, crowd: Racers) -> None:
    of_sends = Allowance.objects.filter(tenant=metered.tenant, feature="sends")

    for n in range(ROUNDS):
        of_sends.update(granted=n + 1)
        got = crowd.at_once([partial(_send, metered)] * MANY)

        assert len([one for one in got if isinstance(one, Reservation)]) == 1
        assert len([one for one in got if isinstance(one, BillingLimit)]) == MANY - 1

    assert of_sends.values_list("held", "used").get() == (ROUNDS, 0)
    assert Hold.objects.filter(tenant=metered.tenant).count() == ROUNDS
    counted = Counter.objects.filter(tenant=metered.tenant, metric__startswith="sends")
    assert set(counted.values_list("value", flat=True)) == {ROUNDS}
    assert Event.objects.filter(type="billing.limit_reached").count() == 1


def _settle(identity: Identity, ref: str, *, waits: int) -> None:
    for _ in range(waits):  # the sweep has further to go: let it come first at times
        database_now()
    with transaction.atomic(durable=True):
        settle(identity.tenant_id, ref=ref, consume=1)


def test_r39_a_hold_that_expires_while_it_settles_is_closed_and_charged_once(
    metered: Identity, racers: Racers
) -> None:
    """Row 12: 500 rounds of the sweep against the settle, in both orders."""
    # Given sends that have left, whose holds ran out before anybody said so
    Allowance.objects.update(granted=None)
    caps = Caps(metered.id, 10_000, 10_000)
    for n in range(EXPIRIES):
        ref, now = new_id("msg"), database_now() - timedelta(seconds=700)
        with transaction.atomic(durable=True):
            reserve(metered.tenant_id, ref=ref, units=2, now=now, caps=caps)

        got = racers.at_once([partial(_settle, metered, ref, waits=n % 5), sweep_holds])

        assert not [one for one in got if isinstance(one, Exception)]

    # Then each was charged once and nothing is held, whoever came first
    allowance = Allowance.objects.get(tenant=metered.tenant, feature="sends")
    assert (allowance.used, allowance.held) == (EXPIRIES, 0)
    assert not Hold.objects.exists()
    # And both came first: the sweep takes such a send for one that never was
    settled_first = sum(
        Counter.objects.filter(metric="sends").values_list("value", flat=True)
    )
    assert 0 < settled_first < EXPIRIES
