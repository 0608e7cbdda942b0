"""Several workers on one row, and workers that die: at least once, and by one only."""

from collections.abc import Iterator
from datetime import timedelta
from itertools import cycle

import pytest

from core import clock, points
from mailboxes.models import Identity
from tests.factories import AddressFactory
from tests.support.racers import Racers
from tests.support.webhook_rows import (
    endpoint_at,
    events_of_one,
    on_its_way,
    ring,
    take_all,
    trusting,
)
from tests.support.webhook_sink import WebhookSink
from webhooks import claims, slots
from webhooks.deliver import deliver
from webhooks.models import WebhookAttempt, WebhookDispatch, WebhookEndpoint
from webhooks.outcomes import Outcome
from webhooks.statuses import AttemptError

pytestmark = pytest.mark.django_db(transaction=True)
ROUNDS = 200
FAILED = Outcome(AttemptError.STATUS_5XX, 500)


@pytest.fixture
def identity() -> Identity:
    return AddressFactory.create().identity


@pytest.fixture
def sink(monkeypatch: pytest.MonkeyPatch) -> Iterator[WebhookSink]:
    with WebhookSink() as running, trusting(monkeypatch):
        yield running
    slots.process_slots.cache_clear()


def rows_for(
    endpoint: WebhookEndpoint, identity: Identity, number: int
) -> list[WebhookDispatch]:
    return [on_its_way(endpoint, event) for event in events_of_one(identity, number)]


def crash() -> None:
    raise RuntimeError("as a worker that dies")


def test_workers_on_one_row_make_one_attempt_between_them(
    identity: Identity, sink: WebhookSink, racers: Racers
) -> None:
    rows = rows_for(endpoint_at(sink.url("/ok")), identity, ROUNDS)

    for row in rows:
        rung = ring(row)
        results = racers.at_once([lambda rung=rung: deliver(rung)] * 4)  # type: ignore[misc]  # a lambda's default
        assert results == [None] * 4

    assert len(sink.received) == len({seen.id for seen in sink.received}) == ROUNDS
    assert WebhookAttempt.objects.filter(attempt=1).count() == ROUNDS
    assert WebhookDispatch.objects.filter(state="succeeded").count() == ROUNDS


def test_what_a_dead_worker_had_claimed_is_repeated_under_the_next_number(
    identity: Identity, sink: WebhookSink
) -> None:
    # Given workers that die right before their request, or right after its answer
    rows = rows_for(endpoint_at(sink.url("/ok")), identity, ROUNDS)
    for row, place in zip(rows, cycle(["webhook.claimed", "webhook.answered"])):
        points.planted.clear()
        points.planted[place] = crash
        deliver(ring(row))
    points.planted.clear()
    assert len(sink.received) == ROUNDS // 2
    assert not WebhookAttempt.objects.exists()

    # When their claims have not run out, nothing is rung; when they have, all is
    assert take_all() == []
    clock.offset += claims.CLAIM_FOR + timedelta(seconds=1)
    while taken := take_all():
        for rung in taken:
            deliver(rung)

    # Then each came, under one id however often, and the numbers go on
    assert len(sink.received) == ROUNDS * 3 // 2
    assert {seen.id for seen in sink.received} == {row.event_id for row in rows}
    assert WebhookAttempt.objects.filter(attempt=2).count() == ROUNDS
    assert WebhookDispatch.objects.filter(state="succeeded").count() == ROUNDS


def test_a_claim_that_ran_out_leaves_evidence_and_decides_nothing(
    identity: Identity, sink: WebhookSink, racers: Racers
) -> None:
    endpoint = endpoint_at(sink.url("/ok"))
    for row in rows_for(endpoint, identity, ROUNDS // 2):
        # Given a worker that froze until another had claimed its row
        first = claims.claim(ring(row))
        second = claims.claim(ring(row))
        assert first is not None
        assert second is not None

        # When both record at once
        racers.at_once(
            [
                lambda claim=first: claims.record(claim, FAILED),  # type: ignore[misc]  # a lambda's default
                lambda claim=second: claims.record(claim, Outcome(None, 204)),  # type: ignore[misc]
            ]
        )

        # Then both stand, and what the second found is so
        row.refresh_from_db()
        assert (row.state, row.step, row.attempts) == ("succeeded", 0, 2)
        ended = WebhookAttempt.objects.filter(event_id=row.event_id)
        assert [*ended.order_by("attempt").values_list("status", flat=True)] == [
            *("failed", "succeeded")
        ]
        assert ended.get(attempt=1).next_attempt_at is None
    endpoint.refresh_from_db()
    assert endpoint.failures == 0


def test_failures_that_are_recorded_at_once_are_all_counted(
    identity: Identity, sink: WebhookSink, racers: Racers
) -> None:
    endpoint = endpoint_at(sink.url("/ok"))
    rows = rows_for(endpoint, identity, 8 * 25)

    for n in range(0, len(rows), 8):
        held = [claims.claim(ring(row)) for row in rows[n : n + 8]]
        racers.at_once(
            [
                lambda claim=claim: claims.record(claim, FAILED)  # type: ignore[misc]  # a lambda's default
                for claim in held
                if claim is not None
            ]
        )

    endpoint.refresh_from_db()
    assert endpoint.failures == len(rows)
    assert WebhookDispatch.objects.filter(step=1).count() == len(rows)
