"""The breaker under real threads: one probe, one opening, and no deadlock."""

from datetime import timedelta
from functools import partial

import pytest

from core.clock import database_now
from mailboxes.models import Alert, Identity
from outbound import claims
from outbound.claims import Claim
from outbound.models import Breaker
from outbound.transports.base import TransportResult, UncertainReason, Unknown
from tests.factories import AddressFactory, DomainFactory, IdentityFactory
from tests.services.conftest import assert_units_add_up
from tests.support.bulk_queue import queue_in_bulk
from tests.support.racers import Racers
from tests.support.scripted import accepted

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]

LOST = Unknown(UncertainReason.TIMEOUT, "no answer")
PROBES, OPENINGS = 100, 20
WORKERS = 3


@pytest.fixture
def identities(transactional_db: None) -> list[Identity]:
    """Identities of one domain: their mailboxes are not in each other's way."""
    domain = DomainFactory.create()
    return [
        AddressFactory.create(
            identity=IdentityFactory.create(tenant=domain.tenant), domain=domain
        ).identity
        for _ in range(WORKERS)
    ]


def record(claim: Claim, *, is_lost: bool) -> None:
    answer: TransportResult = LOST if is_lost else accepted(claim.outgoing)
    claims.record(claim, answer)


def claimed(found: list[object]) -> list[Claim]:
    assert not [one for one in found if isinstance(one, Exception)], found
    return [one for one in found if isinstance(one, Claim)]


def test_two_workers_that_race_for_the_probe_make_one_call(
    identities: list[Identity], racers: Racers
) -> None:
    domain = identities[0].addresses.get().domain
    queued = [queue_in_bulk(one, PROBES) for one in identities[:2]]
    Breaker.objects.create(
        provider="smtp",
        scope=domain.id,
        unknowns=3,
        openings=1,
        probe_at=database_now() - timedelta(seconds=1),
    )
    for messages in zip(*queued, strict=True):
        got = racers.at_once([partial(claims.claim, one) for one in messages])

        assert len(claimed(got)) == 1
        standing = Breaker.objects.get()
        assert standing.probe_token == claimed(got)[0].token
        Breaker.objects.update(probe_at=database_now() - timedelta(seconds=1))


def test_outcomes_that_race_open_it_once_or_not_at_all(
    identities: list[Identity], racers: Racers
) -> None:
    queued = [queue_in_bulk(one, OPENINGS) for one in identities]
    for n, messages in enumerate(zip(*queued, strict=True)):
        taken = [claim for one in messages if (claim := claims.claim(one))]
        assert len(taken) == WORKERS
        ends_well = n % 2

        claimed(
            racers.at_once(
                [
                    partial(record, claim, is_lost=at > 0 or not ends_well)
                    for at, claim in enumerate(taken)
                ]
            )
        )

        alerts = Alert.objects.filter(name="transport_breaker_open", resolved_at=None)
        if ends_well:  # two in a row at most
            assert not Breaker.objects.filter(openings__gt=0).exists()
            assert not alerts.exists()
        else:
            standing = Breaker.objects.get()
            assert (standing.unknowns, standing.openings) == (3, 1)
            assert alerts.count() == 1
        Breaker.objects.all().delete()
        Alert.objects.all().delete()
    assert_units_add_up(identities[0].messages.all()[0])
