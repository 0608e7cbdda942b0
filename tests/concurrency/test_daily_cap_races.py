"""A cap crossed by many at once: exactly as many pass as it allows, warned of once."""

from datetime import datetime
from functools import partial

from django.db import transaction

from core.ids import new_id
from mailboxes.models import Identity
from quota.caps import Caps, Reservation
from quota.errors import DailyCapReached
from quota.models import Allowance, Counter, Hold
from quota.services import reserve, unreserve
from tests.factories import AddressFactory
from tests.support.racers import Racers

ROUNDS = 12
CAP = 50
NOON = datetime.fromisoformat("2026-05-04T12:00:00Z")


def _send(identity: Identity, ref: str) -> Reservation:
    with transaction.atomic(durable=True):
        return reserve(
            identity.tenant_id,
            ref=ref,
            units=2,
            now=NOON,
            caps=Caps(identity.id, CAP, CAP + 10),
        )


def _give_back(identity: Identity, ref: str) -> None:
    with transaction.atomic(durable=True):
        unreserve(identity.tenant_id, ref=ref)


def test_r04_a_cap_crossed_by_concurrent_sends_holds_to_the_message(
    racers: Racers,
) -> None:
    identity = AddressFactory.create().identity

    results = [
        result
        for _ in range(ROUNDS)
        for result in racers.at_once(
            [partial(_send, identity, new_id("msg")) for _ in range(8)]
        )
    ]

    taken = [result for result in results if isinstance(result, Reservation)]
    refused = [result for result in results if isinstance(result, DailyCapReached)]
    assert len(taken) == CAP
    assert len(refused) == ROUNDS * 8 - CAP
    told = sorted((w.scope, w.percent) for one in taken for w in one.warnings)
    assert told == [("identity", 80), ("identity", 100), ("tenant", 80)]
    assert Allowance.objects.get(tenant=identity.tenant).held == 2 * CAP


def test_sends_and_returns_at_once_leave_counts_equal_to_holds(racers: Racers) -> None:
    identity = AddressFactory.create().identity
    refs = [new_id("msg") for _ in range(4)]
    for ref in refs:
        _send(identity, ref)

    for _ in range(6):
        fresh = [new_id("msg") for _ in range(4)]
        racers.at_once(
            [
                *(partial(_send, identity, ref) for ref in fresh),
                *(partial(_give_back, identity, ref) for ref in refs),
            ]
        )
        refs = fresh

    assert Hold.objects.filter(tenant=identity.tenant).count() == 4
    counted = Counter.objects.filter(tenant=identity.tenant, metric__startswith="sends")
    assert set(counted.values_list("value", flat=True)) == {4}
