"""A receiver that never answers holds up nobody else (faults, row 21)."""

import time
from collections.abc import Iterator

import pytest
from pytest_django import Settings

from mailboxes.models import Event, Identity
from tests.factories import AddressFactory
from tests.support.webhook_pool import WebhookPool
from tests.support.webhook_rows import endpoint_at, events_of_one, on_its_way, trusting
from tests.support.webhook_sink import WebhookSink
from webhooks import client, slots
from webhooks.models import WebhookAttempt, WebhookDispatch, WebhookEndpoint

pytestmark = pytest.mark.django_db(transaction=True)
SECONDS = 2.0
"""What an attempt may take here: a receiver that never answers holds a slot as long."""

FAULTS = ("/slow", "/flaky/status/500", "/flaky/redirect", "/flaky/cut")
EACH, DEAD = 7, 34


@pytest.fixture
def sink(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> Iterator[WebhookSink]:
    settings.PM_BACKOFF_SCALE = 0.01
    monkeypatch.setattr(client, "SECONDS", SECONDS)
    with WebhookSink() as running, trusting(monkeypatch):
        yield running
    slots.process_slots.cache_clear()


def _pending() -> int:
    return WebhookDispatch.objects.filter(state="pending").count()


def _p95(sink: WebhookSink, *, since: float) -> float:
    """Return in how many seconds 95 of 100 events had come to those who answer well."""
    first: dict[tuple[str, str], float] = {}
    for seen in sink.received:
        if seen.path.startswith("/ok/") and seen.at > since:
            first.setdefault((seen.path, seen.id), seen.at - since)
    took = sorted(first.values())
    return took[int(len(took) * 0.95)]


def _send(endpoints: list[WebhookEndpoint], events: list[Event]) -> None:
    for event in events:
        for endpoint in endpoints:
            on_its_way(endpoint, event)


def test_300_events_to_20_endpoints_one_of_them_dead(
    sink: WebhookSink, capsys: pytest.CaptureFixture[str]
) -> None:
    # Given 19 endpoints, four of which fail in their own ways, and one that is dead
    identity: Identity = AddressFactory.create().identity
    paths = [*FAULTS, *(f"/ok/{n}" for n in range(15))]
    good = [endpoint_at(sink.url(path)) for path in paths]
    dead = endpoint_at(sink.url("/dead"))

    with WebhookPool() as pool:
        # When events go to the 19 alone
        began = time.monotonic()
        _send(good, events_of_one(identity, EACH))
        pool.run_until(lambda: not _pending())
        alone = _p95(sink, since=began)

        # And as many while the dead one has a backlog
        _send([dead], events_of_one(identity, DEAD))
        pool.run_until(lambda: sink.open["/dead"])
        began = time.monotonic()
        _send(good, events_of_one(identity, EACH))
        mine = WebhookDispatch.objects.exclude(endpoint=dead)
        pool.run_until(lambda: not mine.filter(state="pending").exists())
        beside = _p95(sink, since=began)

        # Then the others were not held up by it, while it held its share and no more
        with capsys.disabled():
            print(f"\np95: {alone:.2f} s alone, {beside:.2f} s beside a dead receiver")  # noqa: T201
        assert beside < alone + SECONDS
        assert sink.most_open["/dead"] == slots.process_slots().of_one == 2
        assert WebhookDispatch.objects.filter(endpoint=dead, state="pending").exists()

        # And once it lives again, it gets all that it has missed
        sink.revived.set()
        pool.run_until(lambda: not _pending())

    _each_came(sink, paths, dead)


def _each_came(sink: WebhookSink, paths: list[str], dead: WebhookEndpoint) -> None:
    rows = WebhookDispatch.objects.select_related("endpoint")
    assert rows.count() == 2 * EACH * len(paths) + DEAD == 300
    wanted = {(row.endpoint.url.split(str(sink.port))[1], row.event_id) for row in rows}
    assert {(seen.path, seen.id) for seen in sink.received} == wanted
    assert {row.state for row in rows} == {"succeeded"}
    for path in FAULTS[1:]:
        of_one = [seen.id for seen in sink.received if seen.path == path]
        assert len(of_one) == 2 * len(set(of_one)), "a failure, then a success"
    assert WebhookAttempt.objects.filter(endpoint=dead, error="timeout").exists()
