"""A queue that fails in each way: nothing is lost, nothing doubled, and it is told."""

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import connection, connections
from django.test.utils import override_settings

from core.clock import database_now
from delivery import cloudflare_pull, turns
from delivery.cloudflare_queue import LEASE_SECONDS, CloudflareQueue
from delivery.models import EventPull, ProviderEvent
from delivery.statuses import EventSource
from mailboxes.models import Alert
from tests.support.cloudflare_queue import (
    QueueServer,
    pulling,
)
from tests.support.cloudflare_server import TOKEN, Say, Step, envelope, error
from tests.support.pulling import pull, put, stored
from tests.support.waiting import until

pytestmark = pytest.mark.django_db
Later = Callable[[float], None]


# --- an API that fails ---------------------------------------------------------------

FAULTS: dict[str, Step] = {
    "429": error(429, "Please wait and consider throttling your request speed", 971),
    "401": error(401, "Authentication error"),
    "403": error(403, "Authentication error"),
    "404": error(404, "Queue not found", 11000),
    "500": error(500, "Internal server error", 10001),
    "200 with an error": Say(200, envelope(None, success=False, errors=[{"code": 1}])),
    "200 without a result": Say(200, envelope(None)),
    "200 with another result": Say(200, envelope([])),
    "200 with other messages": Say(200, envelope({"messages": "none", "ackCount": 0})),
    "a redirect": Say(302, ""),
    "html": Say(200, "<html>Bad gateway</html>"),
    "html 502": Say(502, "<html>Bad gateway</html>"),
    "an empty body": Say(200, ""),
    "reset": "reset",
    "reset after it was read": "reset_after",
    "half an answer": "half",
    "without end": Say(200, "x" * 26_000_000),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_lease_that_fails_loses_nothing(
    cloudflare: QueueServer, later: Later, fault: str
) -> None:
    """Row 17, for the queue."""
    names = put(cloudflare, "one", "two")
    cloudflare.on_pull = [FAULTS[fault]]

    pull()

    # Then nothing was stored, nothing forgotten, and the API was asked once
    assert stored() == []
    assert len(cloudflare.queue.waiting) == 2
    assert (cloudflare.connections, len(cloudflare.acks)) == (1, 0)
    assert EventPull.objects.get().failures == 1

    # And when the lease and the wait are over, all of it is taken
    cloudflare.pass_time(LEASE_SECONDS)
    later(15)
    pull()
    assert stored() == names
    assert cloudflare.queue.waiting == {}
    assert EventPull.objects.get().failures == 0


@pytest.mark.parametrize("fault", FAULTS)
def test_an_acknowledgement_that_fails_doubles_nothing(
    cloudflare: QueueServer, later: Later, fault: str
) -> None:
    names = put(cloudflare, "one", "two")
    cloudflare.on_ack = [FAULTS[fault]]

    pull()

    # Then both events are stored, and it was acknowledged once
    assert stored() == names
    assert (len(cloudflare.pulls), cloudflare.connections) == (1, 2)
    assert EventPull.objects.get().failures == 1

    # And what comes again is known
    rows = set(ProviderEvent.objects.values_list("id", flat=True))
    cloudflare.pass_time(LEASE_SECONDS)
    later(15)
    pull()
    assert set(ProviderEvent.objects.values_list("id", flat=True)) == rows
    assert cloudflare.queue.waiting == {}
    assert EventPull.objects.get().failures == 0


def test_an_api_that_hangs_is_left_at_the_deadline(
    cloudflare: QueueServer, later: Later, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = cloudflare_pull._queue

    def hurried() -> CloudflareQueue:
        return replace(whole(), seconds=0.2)

    monkeypatch.setattr(cloudflare_pull, "_queue", hurried)
    names = put(cloudflare, "one")
    cloudflare.on_pull, cloudflare.on_ack = ["hang", "drip"], []

    for _ in range(2):
        pull()
        assert stored() == []
        later(300)

    monkeypatch.setattr(cloudflare_pull, "_queue", whole)
    cloudflare.pass_time(LEASE_SECONDS)
    pull()
    assert stored() == names
    assert cloudflare.queue.waiting == {}


def test_what_is_acknowledged_in_part_comes_again_and_is_known(
    cloudflare: QueueServer,
) -> None:
    names = put(cloudflare, "one", "two", "three")
    cloudflare.most_acked = 2

    pull()

    assert stored() == names
    assert len(cloudflare.queue.waiting) == 1
    assert EventPull.objects.get().failures == 0

    cloudflare.pass_time(LEASE_SECONDS)
    pull()
    assert stored() == names
    assert cloudflare.queue.waiting == {}


def test_a_queue_that_forgets_nothing_is_a_failure(cloudflare: QueueServer) -> None:
    names = put(cloudflare, "one")
    cloudflare.most_acked = 0

    pull()

    assert stored() == names
    assert EventPull.objects.get().failures == 1


def test_a_database_that_refuses_a_batch_lets_the_queue_keep_it(
    cloudflare: QueueServer, later: Later
) -> None:
    # Given a table that takes no row of this event
    names = put(cloudflare, "one", "two")
    alter = "ALTER TABLE provider_events {} CONSTRAINT planted"
    with connection.cursor() as cursor:
        cursor.execute(f"{alter.format('ADD')} CHECK (event_id <> 'two') NOT VALID")

    pull()

    # Then none of the batch was stored, and none acknowledged
    assert stored() == []
    assert (len(cloudflare.queue.waiting), len(cloudflare.acks)) == (2, 0)
    assert EventPull.objects.get().failures == 1

    # And when the table is well, all of it is taken
    with connection.cursor() as cursor:
        cursor.execute(alter.format("DROP"))
    cloudflare.pass_time(LEASE_SECONDS)
    later(15)
    pull()
    assert stored() == names
    assert cloudflare.queue.waiting == {}


# --- back-off and alert --------------------------------------------------------------


def test_after_a_failure_nobody_asks_before_the_wait_is_over(
    cloudflare: QueueServer, later: Later
) -> None:
    cloudflare.on_pull = [FAULTS["500"]] * 8
    waits = []

    for asked in range(1, 8):
        pull()
        assert cloudflare.connections == asked
        pull()
        assert cloudflare.connections == asked
        wait = EventPull.objects.get().due_at - database_now()
        waits.append(round(wait.total_seconds()))
        later(waits[-1])

    assert waits == [15, 30, 60, 120, 240, 300, 300]


def test_the_third_failure_in_a_row_is_told_and_the_next_success_resolves_it(
    cloudflare: QueueServer, later: Later
) -> None:
    cloudflare.on_pull = [FAULTS[name] for name in ("500", "429", "401", "reset")]

    for _ in range(2):
        pull()
        later(300)
    assert not Alert.objects.exists()

    pull()
    alert = Alert.objects.get()
    assert (alert.name, alert.subject) == ("provider_events_not_pulled", "cloudflare")
    assert alert.severity == "page"
    assert alert.details == {"failures": 3, "code": "pull_http_401"}

    later(300)
    pull()
    alert.refresh_from_db()
    assert alert.resolved_at is None
    assert alert.details == {"failures": 4, "code": "pull_no_answer"}

    later(300)
    pull()
    alert.refresh_from_db()
    assert alert.resolved_at is not None


def test_a_failure_after_a_success_counts_from_one(
    cloudflare: QueueServer, later: Later
) -> None:
    for _ in range(3):
        cloudflare.on_pull = [FAULTS["500"]] * 2
        for _ in range(3):
            pull()
            later(300)

    assert len(cloudflare.pulls) == 9
    assert not Alert.objects.exists()


def test_no_token_and_no_address_is_logged(
    cloudflare: QueueServer, later: Later, capsys: pytest.CaptureFixture[str]
) -> None:
    put(cloudflare, "one", "two")
    words = f"{TOKEN} is no token, says jo@example.net"
    cloudflare.on_pull = [error(403, words), "half", cloudflare._take]
    cloudflare.on_ack = [error(400, words)]
    for _ in range(3):
        pull()
        later(300)
        cloudflare.pass_time(LEASE_SECONDS)

    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]

    codes = [line.get("code") for line in lines if line["event"] == "event_pull_failed"]
    assert codes == ["pull_http_403", "pull_no_answer", "ack_http_400"]
    for word in (TOKEN, "example.net", "eyJhbG"):
        assert word not in json.dumps(lines)
    assert TOKEN not in repr(cloudflare_pull._queue())


def test_a_wrong_token_takes_nothing(cloudflare: QueueServer) -> None:
    put(cloudflare, "one")

    with pulling(cloudflare, PM_CF_API_TOKEN="wrong"):
        pull()

    assert len(cloudflare.queue.waiting) == 1
    assert stored() == []


def test_a_proxy_out_of_the_environment_is_not_asked(
    cloudflare: QueueServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(cloudflare, "one")
    with QueueServer() as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")

        pull()

        assert proxy.connections == 0
    assert stored() == ["one"]


# --- one at a time -------------------------------------------------------------------


def test_a_turn_that_is_taken_is_nobody_elses_until_it_lapses(later: Later) -> None:
    token = turns.take_turn(EventSource.CLOUDFLARE)
    assert token is not None
    assert turns.take_turn(EventSource.CLOUDFLARE) is None
    later(100)
    assert turns.keep_turn(token)
    later(100)
    assert turns.take_turn(EventSource.CLOUDFLARE) is None

    # When its worker has died
    later(20)
    other = turns.take_turn(EventSource.CLOUDFLARE)

    # Then the next one has it, and what the first says counts for nothing
    assert other is not None
    assert not turns.keep_turn(token)
    turns.end_turn(token, failure="late")
    row = EventPull.objects.get()
    assert (row.token, row.failures) == (other, 0)
    assert row.due_at - database_now() > timedelta(seconds=110)


def test_the_back_off_of_a_test_deployment_is_shorter() -> None:
    token = turns.take_turn(EventSource.CLOUDFLARE)
    assert token is not None

    with override_settings(PM_BACKOFF_SCALE=0.01):
        turns.end_turn(token, failure="x")

    wait = EventPull.objects.get().due_at - database_now()
    assert wait <= timedelta(seconds=0.15)


@pytest.mark.django_db(transaction=True)
def test_of_two_pulls_at_once_one_asks_the_api(cloudflare: QueueServer) -> None:
    # Given a pull whose answer has not come yet
    put(cloudflare, "one")
    asked, answered = threading.Event(), threading.Event()

    def hold(seen: object) -> None:
        asked.set()
        answered.wait(10)

    cloudflare.before = hold
    first = threading.Thread(target=_pull_and_leave)
    first.start()
    until(asked.is_set)

    # When another worker's turn comes
    pull()

    # Then it asks nothing
    assert cloudflare.connections == 1
    answered.set()
    first.join(10)
    assert stored() == ["one"]
    assert (len(cloudflare.pulls), len(cloudflare.acks)) == (1, 1)


def _pull_and_leave() -> None:
    pull()
    connections.close_all()
