"""What an outage costs: three sends in doubt, those under way, and one for each probe.

``parallel`` bounds the calls under way: no more can be in doubt when the breaker opens,
for a call begins only by a claim, and no claim is taken from then on but a probe's.
The outage is the worst there is: it shows only once a mail has gone out, as with a
relay that takes the dot and leaves. What shows before costs no probe's mail
(``test_provider_outages``).
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.db import transaction
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from pytest_django import Settings

from delivery.models import Attempt, OutboundState
from mailboxes.models import Alert, Identity, Message
from outbound.models import Breaker
from tests.factories import AddressFactory, DomainFactory, IdentityFactory
from tests.services.conftest import assert_units_add_up
from tests.support.bulk_queue import queue_in_bulk
from tests.support.outage import Outage

pytestmark = pytest.mark.django_db
MINUTE, HOUR = 60.0, 3600.0


def statuses() -> Counter[str]:
    return Counter(Message.objects.values_list("status", flat=True))


def two_of_one_domain() -> list[Identity]:
    domain = DomainFactory.create()
    return [
        AddressFactory.create(
            identity=IdentityFactory.create(tenant=domain.tenant), domain=domain
        ).identity
        for _ in range(2)
    ]


def assert_bounded(outage: Outage) -> None:
    """Assert the bound, and that nobody was called for twice."""
    in_doubt = statuses()["uncertain"]
    assert in_doubt <= 3 + outage.open_calls_when_opened + len(outage.probes)
    assert outage.open_calls_when_opened < outage.parallel
    assert max(Counter(outage.calls).values(), default=1) == 1
    assert_units_add_up(Message.objects.all()[0])


@pytest.mark.parametrize("parallel", [1, 4])
def test_ten_minutes_away_cost_three_sends_and_all_else_goes_out_afterwards(
    parallel: int,
) -> None:
    """J28: a message each 20 s, before, during and after; each call hangs 30 s."""
    outage = Outage(two_of_one_domain(), lambda at: 60 <= at < 660, parallel=parallel)

    outage.run(seconds=12 * MINUTE, every=20)
    outage.advance_to(30 * MINUTE)

    found = statuses()
    assert_bounded(outage)
    assert len(outage.probes) == 2  # one in the outage, and the one that closed it
    assert found["uncertain"] == 3 + outage.open_calls_when_opened + 1
    assert found["submitted"] == 36 - found["uncertain"]
    assert not Breaker.objects.exists()
    assert Alert.objects.get(name="transport_breaker_open").resolved_at is not None


def test_row_45_away_for_25_hours_with_a_killed_probe(
    identity: Identity, settings: Settings
) -> None:
    settings.PM_BACKOFF_SCALE = 6  # waits from half an hour to six hours: fewer probes
    outage = Outage([identity], lambda at: True, parallel=1, kills=frozenset({3}))
    queue_in_bulk(identity, 15)

    outage.advance_to(25 * HOUR)

    # Then one probe at a time was made, the rest has failed, and nothing waits on
    found = statuses()
    assert_bounded(outage)
    assert outage.probes == outage.calls[3:]
    assert 5 <= len(outage.probes) <= 8
    assert found["failed"] == 15 - found["uncertain"] > 0
    assert set(found) == {"failed", "uncertain"}
    assert not OutboundState.objects.exists()
    lost = Attempt.objects.get(phase="worker_lost")
    after = Attempt.objects.filter(claimed_at__gt=lost.claimed_at).earliest(
        "claimed_at"
    )
    wait = (after.claimed_at - lost.claimed_at).total_seconds()
    assert 300 <= wait < 340  # the right lapsed with the claim


@contextmanager
def rolled_back() -> Iterator[None]:
    """Let the next example find nothing of this one."""
    before = transaction.savepoint()
    try:
        yield
    finally:
        transaction.savepoint_rollback(before)


@examples(max_examples=6)
@given(
    begins=st.floats(0, 300),
    lasts=st.floats(1, 2400),
    parallel=st.integers(1, 6),
    hangs=st.floats(0.1, 240),
    kills=st.frozensets(st.integers(0, 12), max_size=3),
)
def test_whatever_the_outage_the_bound_holds_and_nothing_is_left_waiting(
    begins: float, lasts: float, parallel: int, hangs: float, kills: frozenset[int]
) -> None:
    with rolled_back():
        outage = Outage(
            two_of_one_domain(),
            lambda at: begins <= at < begins + lasts,
            parallel=parallel,
            hangs=hangs,
            kills=kills,
        )

        outage.run(seconds=10 * MINUTE, every=60)
        outage.advance_to(4 * HOUR)

        found = statuses()
        killed = sum(n < len(outage.calls) for n in kills)
        assert found["uncertain"] <= (2 + parallel + len(outage.probes) + killed)
        assert set(found) <= {"uncertain", "submitted"}
        assert not OutboundState.objects.exists()
        assert max(Counter(outage.calls).values()) == 1
