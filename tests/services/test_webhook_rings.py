"""Which rows are rung: each endpoint's share, whoever's backlog is how long."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from celery import current_app
from pytest_django import Settings

from core import clock
from core.clock import database_now
from core.ids import new_id
from mailboxes.models import Identity
from outbound import dispatch
from outbound.dispatch import SHARE
from pylota.watch.conditions import CONDITIONS
from pylota.watch.evaluate import signs
from tests.support.webhook_rows import (
    endpoint_at,
    events_of_one,
    on_its_way,
    ring,
    rung_by_endpoint,
    take_all,
)
from webhooks import deliver, slots
from webhooks.models import WebhookDispatch, WebhookEndpoint
from webhooks.tasks import deliver_event

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _slots() -> Iterator[None]:
    yield
    slots.process_slots.cache_clear()


def backlog(endpoint: WebhookEndpoint, number: int, *, age: float = 0.0) -> None:
    """Let so many rows be due, without events of their own."""
    due = database_now() - timedelta(seconds=age)
    WebhookDispatch.objects.bulk_create(
        WebhookDispatch(
            endpoint=endpoint,
            event_id=new_id("evt"),
            event_type="message.sent",
            due_at=due,
        )
        for _ in range(number)
    )


def test_a_backlog_does_not_eat_what_others_may_have_rung(settings: Settings) -> None:
    # Given one endpoint with a long and old backlog, and ten with a row each
    settings.PM_RING_AHEAD = 1
    dead = endpoint_at("https://dead.example.com/")
    backlog(dead, 3 * SHARE, age=3600)
    others = [endpoint_at(f"https://h{n}.example.com/") for n in range(10)]
    for other in others:
        backlog(other, 1)

    # When all is rung that may be
    taken = take_all()

    # Then the one has its share, and each of the others is rung
    assert rung_by_endpoint() == {dead.id: SHARE, **{one.id: 1 for one in others}}
    assert len(taken) == SHARE + 10

    # And no more of it is, while nothing is claimed
    assert take_all() == []


def test_the_oldest_rows_of_an_endpoint_are_rung_first() -> None:
    endpoint = endpoint_at("https://hooks.example.com/")
    backlog(endpoint, SHARE + 5)
    backlog(endpoint, 3, age=60)
    old = set(WebhookDispatch.objects.order_by("-id").values_list("id", flat=True)[:3])

    taken = {int(one) for one in take_all()}

    assert old <= taken
    assert len(taken) == SHARE


def test_what_is_not_due_or_has_ended_is_not_rung(identity: Identity) -> None:
    endpoint = endpoint_at("https://hooks.example.com/")
    first, second, third = events_of_one(identity, 3)
    on_its_way(endpoint, first, due_at=database_now() + timedelta(minutes=1))
    on_its_way(endpoint, second, state="succeeded", due_at=None)
    row = on_its_way(endpoint, third)

    assert take_all() == [str(row.pk)]


def test_a_rung_row_that_nobody_claims_is_rung_again_after_five_minutes(
    identity: Identity,
) -> None:
    row = on_its_way(endpoint_at("https://x.example.com/"), events_of_one(identity)[0])
    assert take_all() == [str(row.pk)]
    assert take_all() == []

    clock.offset = timedelta(seconds=301)

    assert take_all() == [str(row.pk)]


def test_a_ring_goes_to_the_queue_of_webhooks(
    identity: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = on_its_way(endpoint_at("https://x.example.com/"), events_of_one(identity)[0])
    rings: list[tuple[str, str, list[str]]] = []

    def send(task: str, *, args: list[str], queue: str, **_: Any) -> None:
        rings.append((task, queue, args))

    monkeypatch.setattr(current_app, "send_task", send)

    assert dispatch.dispatch_due() == 1
    assert rings == [("webhooks.deliver_event", "webhooks", [str(row.pk)])]
    assert deliver_event.name == dispatch.WEBHOOKS.task


def test_a_process_that_ends_gives_its_waiting_rows_back(identity: Identity) -> None:
    # Given a process whose slots are all taken, and a row that waits for one
    row = on_its_way(endpoint_at("https://x.example.com/"), events_of_one(identity)[0])
    ours = slots.process_slots()
    for n in range(ours.size):
        ours.enter(f"other{n}", "0")
    deliver.deliver(ring(row))
    assert ours.waiting >= 1

    # When it begins to end, the row is due now, and rings that come are given back
    deliver.stop_waiting()
    row.refresh_from_db()
    assert row.rung_at is None
    deliver.deliver(ring(row))
    row.refresh_from_db()
    assert (row.rung_at, row.attempts) == (None, 0)
    assert take_all() == [str(row.pk)]


def test_a_long_backlog_is_not_called_forgotten() -> None:
    (overdue,) = (one for one in CONDITIONS if one.name == "rows_overdue")
    endpoint = endpoint_at("https://dead.example.com/")
    backlog(endpoint, SHARE + 1, age=3600)
    (forgotten,) = signs(overdue, now=database_now())
    assert forgotten.subject == "webhook_dispatches"

    take_all()

    assert signs(overdue, now=database_now()) == []


@pytest.mark.parametrize(
    ("threads", "parallel", "slots_there_are"),
    [(16, 8, 8), (16, 100, 8), (4, 8, 2), (1, 8, 1), (64, 20, 20)],
)
def test_webhooks_hold_half_of_a_workers_threads_at_most(
    settings: Settings, threads: int, parallel: int, slots_there_are: int
) -> None:
    settings.PM_WORKER_THREADS = threads
    settings.PM_WEBHOOK_PARALLEL = parallel
    slots.process_slots.cache_clear()

    assert slots.process_slots().size == slots_there_are
