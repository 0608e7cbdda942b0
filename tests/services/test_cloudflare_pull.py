"""Pulling Cloudflare's events: stored before they are acknowledged, whatever fails."""

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta

import pytest
from django.conf import settings
from django.db import connection, connections
from django.test.utils import override_settings

from core import points
from core.clock import database_now
from core.metrics import DELIVERY_UNKNOWN_TYPE
from delivery import cloudflare_pull, received, tasks, turns
from delivery.cloudflare_queue import CALL_SECONDS, LEASE_SECONDS, CloudflareQueue
from delivery.models import EventPull, ProviderEvent, ReceivedBody
from delivery.services import apply_event
from delivery.statuses import EventSource
from mailboxes.models import Alert
from pylota.celery import app
from suppressions.models import Suppression
from tests.services.conftest import assert_units_add_up, events_of, statuses
from tests.support.cloudflare import queued, work
from tests.support.cloudflare_queue import (
    PATH,
    QueueServer,
    hostile,
    pulling,
    said,
)
from tests.support.cloudflare_server import TOKEN, Say, Step, envelope, error
from tests.support.waiting import until

pytestmark = pytest.mark.django_db
Later = Callable[[float], None]
A, B = "a@example.net", "b@example.net"


@pytest.fixture
def server() -> Iterator[QueueServer]:
    """A queue with nothing in it, and a deployment that pulls it."""
    with QueueServer() as found, pulling(found):
        yield found


def pull() -> None:
    tasks.pull_cloudflare_events()


def stored() -> list[str]:
    """Return the ids of the events in the inbox, in the order of their ids."""
    found = ProviderEvent.objects.order_by("event_id")
    return list(found.values_list("event_id", flat=True))


def put(server: QueueServer, *names: str) -> list[str]:
    """Let events of these ids come into the queue; return the ids, in order."""
    for name in names:
        server.put(said("delivered", eventId=name))
    return sorted(names)


# --- one batch -----------------------------------------------------------------------


def test_an_event_is_stored_then_acknowledged_and_is_due_at_once(
    server: QueueServer,
) -> None:
    [name] = put(server, "one")
    before: list[list[str]] = []
    server.before = lambda seen: before.append([])
    points.planted["cloudflare_pull.stored"] = lambda: before.append(stored())

    pull()

    assert before == [[], [name], []]  # a lease, the inbox, the acknowledgement
    row = ProviderEvent.objects.get()
    assert (row.source, row.event_id, row.state) == ("cloudflare", name, "pending")
    assert row.due_at is not None
    assert row.due_at <= database_now()
    assert server.queue.waiting == {}


def test_the_requests_are_those_that_the_api_documents(server: QueueServer) -> None:
    put(server, "one")

    pull()

    leased, acknowledged = server.requests
    assert (leased.method, leased.path) == ("POST", f"{PATH}/pull")
    assert leased.json == {"batch_size": 100, "visibility_timeout_ms": 120_000}
    assert (acknowledged.method, acknowledged.path) == ("POST", f"{PATH}/ack")
    [lease_id] = server.queue.leases
    assert acknowledged.json == {"acks": [{"lease_id": lease_id}], "retries": []}
    for seen in server.requests:
        assert seen.headers["authorization"] == f"Bearer {TOKEN}"
        assert seen.headers["content-type"] == "application/json"


def test_a_lease_and_a_turn_outlive_what_a_batch_may_take() -> None:
    assert LEASE_SECONDS >= 2 * CALL_SECONDS + 60
    assert turns.TURN.total_seconds() >= 2 * CALL_SECONDS + 60


def test_an_empty_queue_is_asked_once_and_nothing_is_acknowledged(
    server: QueueServer,
) -> None:
    pull()

    assert (len(server.pulls), len(server.acks)) == (1, 0)
    assert EventPull.objects.get().failures == 0


def test_without_a_queue_nothing_is_asked_and_no_turn_is_taken() -> None:
    with QueueServer() as server, pulling(server, PM_CF_QUEUE_ID=""):
        pull()

    assert server.connections == 0
    assert not EventPull.objects.exists()


def test_beat_asks_for_it_and_a_late_request_is_dropped() -> None:
    entry = app.conf.beat_schedule["event pull"]

    assert entry["task"] == tasks.pull_cloudflare_events.name in app.tasks
    period = entry["schedule"].total_seconds()
    assert entry["options"]["expires"] == period == settings.PM_ALARM_SECONDS


# --- what becomes of a message -------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("delivered", "delivered"),
        ("deferred", "deferred"),
        ("bounced", "bounced"),
        ("failed", "failed"),
        ("rejected", "rejected"),
        ("complained", "complained"),
    ],
)
def test_an_event_of_each_type_moves_its_recipient(
    server: QueueServer, kind: str, status: str
) -> None:
    message = queued(A, B)
    work(message)
    server.put(
        said(
            kind,
            messageId=message.provider_message_id,
            sender=(message.from_address or "").upper(),
            recipient=f"<{A.upper()}>",
        )
    )

    pull()

    assert apply_event(ProviderEvent.objects.get().id) == "applied"
    assert statuses(message) == {A: status, B: "submitted"}
    suppresses = kind in ("bounced", "complained")
    assert Suppression.objects.count() == suppresses
    told = events_of(message)
    assert (f"message.{kind}" in told) is (kind not in ("failed", "rejected"))
    assert_units_add_up(message)


def test_a_lost_send_is_settled_by_the_event_that_is_like_it(
    server: QueueServer,
) -> None:
    # Given a send that the provider took, and said nothing of
    message = queued(A)
    server.steps = ["reset_after"]
    work(message)
    assert message.status == "uncertain"

    server.put(
        said(
            "delivered",
            messageId="cf-late",
            sender=message.from_address,
            recipient=A,
            subject=message.subject,
        )
    )
    pull()

    assert apply_event(ProviderEvent.objects.get().id) == "applied"
    message.refresh_from_db()
    assert (message.status, message.provider_message_id) == ("delivered", "cf-late")
    assert_units_add_up(message)


# --- what is no event ----------------------------------------------------------------


def test_what_is_no_event_is_acknowledged_and_holds_up_no_other(
    server: QueueServer, capsys: pytest.CaptureFixture[str]
) -> None:
    # Given a queue in which an event stands among much that is none
    counted = DELIVERY_UNKNOWN_TYPE._value.get()
    server.put(said("opened"))
    server.put({"type": "cf.r2.bucket.created"})
    server.put(said("delivered", recipient="journal+01j.01k@agents.test"))
    unreadable = [
        server.put("no json, and jo@example.net", "text"),
        server.put("\x00/w9vIgR", "v8"),
        server.put("[1, 2", "bytes"),
        server.put(said("delivered", recipient="nobody")),
    ]
    [name] = put(server, "one")

    pull()

    assert stored() == [name]
    assert server.queue.waiting == {}
    assert DELIVERY_UNKNOWN_TYPE._value.get() == counted + 2
    alert = Alert.objects.get()
    assert (alert.name, alert.subject) == ("provider_event_unreadable", "cloudflare")
    assert alert.details == {"queue_messages": unreadable}
    kept = ReceivedBody.objects.filter(source="cloudflare").order_by("id")
    assert list(kept.values_list("posted_id", flat=True)) == unreadable
    first = received.opened("cloudflare", unreadable[0], kept[0].sealed)
    assert first == b"no json, and jo@example.net"
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    logged = [x["event_id"] for x in lines if x["event"] == alert.name]
    assert logged == unreadable
    assert "example.net" not in json.dumps(lines)


def test_no_field_of_an_event_can_keep_a_batch_from_being_stored(
    server: QueueServer,
) -> None:
    for body in hostile():
        server.put(body)
    put(server, "one")

    pull()

    assert server.queue.waiting == {}
    assert "one" in stored()
    assert Alert.objects.get().name == "provider_event_unreadable"
    assert ReceivedBody.objects.count() > 50
    for row in ProviderEvent.objects.all():
        assert apply_event(row.id) in ("pending", "unroutable", "orphaned")


@pytest.mark.parametrize(
    "entry",
    [
        *(None, 7, "x", [], {}, {"lease_id": None}, {"lease_id": "a b"}),
        {"lease_id": "x", "id": 7, "timestamp_ms": "soon"},
        {"lease_id": "x", "id": "\x00", "timestamp_ms": float("nan")},
        {"lease_id": "x", "id": "y" * 500, "timestamp_ms": 10**40, "body": {}},
    ],
)
def test_an_entry_of_another_form_holds_up_no_other(
    server: QueueServer, entry: object
) -> None:
    # Given an answer that holds something strange before an event
    put(server, "one")
    listed = [entry, *server.queue.lease(100, 30)]
    server.on_pull = [Say(200, envelope({"messages": listed}))]

    pull()

    assert stored() == ["one"]
    assert server.queue.waiting == {}


def test_the_largest_batch_is_taken(server: QueueServer) -> None:
    for _ in range(100):
        server.put("x" * 127_900, "bytes")

    pull()

    assert server.queue.waiting == {}


# --- batches -------------------------------------------------------------------------


def test_what_cannot_be_read_is_kept_once_however_often_it_comes(
    server: QueueServer, later: Later
) -> None:
    server.put("\ud800 no json", "text")
    server.queue.waiting[server.put("")].body = {"no": ["type"]}
    server.on_ack = [FAULTS["500"]]

    for _ in range(2):
        pull()
        later(15)
        server.pass_time(LEASE_SECONDS)

    rows = ReceivedBody.objects.order_by("id")
    bodies = [received.opened(row.source, row.posted_id, row.sealed) for row in rows]
    assert bodies == [b"\\ud800 no json", b'{"no": ["type"]}']
    assert server.queue.waiting == {}


def test_a_full_batch_is_followed_by_the_next(server: QueueServer) -> None:
    names = put(server, *(f"{n:03}" for n in range(230)))

    pull()

    assert stored() == names
    assert server.queue.waiting == {}
    assert (len(server.pulls), len(server.acks)) == (3, 3)


def test_r17_one_event_published_46_times_is_one_row(server: QueueServer) -> None:
    put(server, *["one"] * 46)

    pull()

    assert stored() == ["one"]
    assert server.queue.waiting == {}


def test_a_turn_ends_after_so_many_batches(
    server: QueueServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cloudflare_pull, "MOST_BATCHES", 2)
    put(server, *(f"{n:03}" for n in range(230)))

    pull()
    assert len(stored()) == 200

    pull()
    assert len(stored()) == 230


def test_a_turn_ends_after_so_long(
    server: QueueServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cloudflare_pull, "MOST_SECONDS", 0.0)
    put(server, *(f"{n:03}" for n in range(230)))

    pull()

    assert len(server.pulls) == 1


def test_a_turn_that_was_lost_leases_no_more(server: QueueServer) -> None:
    # Given a worker that stood still until its turn was another's
    put(server, *(f"{n:03}" for n in range(230)))
    other = "00000000-0000-0000-0000-000000000000"

    def take_over() -> None:
        EventPull.objects.update(token=other)

    points.planted["cloudflare_pull.stored"] = take_over

    pull()

    # Then it stores and acknowledges what it holds, and leaves the other's turn alone
    assert (len(stored()), len(server.pulls), len(server.acks)) == (100, 1, 1)
    row = EventPull.objects.get()
    assert (str(row.token), row.failures) == (other, 0)
    assert row.due_at > database_now()


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
    server: QueueServer, later: Later, fault: str
) -> None:
    """Row 17, for the queue."""
    names = put(server, "one", "two")
    server.on_pull = [FAULTS[fault]]

    pull()

    # Then nothing was stored, nothing forgotten, and the API was asked once
    assert stored() == []
    assert len(server.queue.waiting) == 2
    assert (server.connections, len(server.acks)) == (1, 0)
    assert EventPull.objects.get().failures == 1

    # And when the lease and the wait are over, all of it is taken
    server.pass_time(LEASE_SECONDS)
    later(15)
    pull()
    assert stored() == names
    assert server.queue.waiting == {}
    assert EventPull.objects.get().failures == 0


@pytest.mark.parametrize("fault", FAULTS)
def test_an_acknowledgement_that_fails_doubles_nothing(
    server: QueueServer, later: Later, fault: str
) -> None:
    names = put(server, "one", "two")
    server.on_ack = [FAULTS[fault]]

    pull()

    # Then both events are stored, and it was acknowledged once
    assert stored() == names
    assert (len(server.pulls), server.connections) == (1, 2)
    assert EventPull.objects.get().failures == 1

    # And what comes again is known
    rows = set(ProviderEvent.objects.values_list("id", flat=True))
    server.pass_time(LEASE_SECONDS)
    later(15)
    pull()
    assert set(ProviderEvent.objects.values_list("id", flat=True)) == rows
    assert server.queue.waiting == {}
    assert EventPull.objects.get().failures == 0


def test_an_api_that_hangs_is_left_at_the_deadline(
    server: QueueServer, later: Later, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = cloudflare_pull._queue

    def hurried() -> CloudflareQueue:
        return replace(whole(), seconds=0.2)

    monkeypatch.setattr(cloudflare_pull, "_queue", hurried)
    names = put(server, "one")
    server.on_pull, server.on_ack = ["hang", "drip"], []

    for _ in range(2):
        pull()
        assert stored() == []
        later(300)

    monkeypatch.setattr(cloudflare_pull, "_queue", whole)
    server.pass_time(LEASE_SECONDS)
    pull()
    assert stored() == names
    assert server.queue.waiting == {}


def test_what_is_acknowledged_in_part_comes_again_and_is_known(
    server: QueueServer,
) -> None:
    names = put(server, "one", "two", "three")
    server.most_acked = 2

    pull()

    assert stored() == names
    assert len(server.queue.waiting) == 1
    assert EventPull.objects.get().failures == 0

    server.pass_time(LEASE_SECONDS)
    pull()
    assert stored() == names
    assert server.queue.waiting == {}


def test_a_queue_that_forgets_nothing_is_a_failure(server: QueueServer) -> None:
    names = put(server, "one")
    server.most_acked = 0

    pull()

    assert stored() == names
    assert EventPull.objects.get().failures == 1


def test_a_database_that_refuses_a_batch_lets_the_queue_keep_it(
    server: QueueServer, later: Later
) -> None:
    # Given a table that takes no row of this event
    names = put(server, "one", "two")
    alter = "ALTER TABLE provider_events {} CONSTRAINT planted"
    with connection.cursor() as cursor:
        cursor.execute(f"{alter.format('ADD')} CHECK (event_id <> 'two') NOT VALID")

    pull()

    # Then none of the batch was stored, and none acknowledged
    assert stored() == []
    assert (len(server.queue.waiting), len(server.acks)) == (2, 0)
    assert EventPull.objects.get().failures == 1

    # And when the table is well, all of it is taken
    with connection.cursor() as cursor:
        cursor.execute(alter.format("DROP"))
    server.pass_time(LEASE_SECONDS)
    later(15)
    pull()
    assert stored() == names
    assert server.queue.waiting == {}


# --- back-off and alert --------------------------------------------------------------


def test_after_a_failure_nobody_asks_before_the_wait_is_over(
    server: QueueServer, later: Later
) -> None:
    server.on_pull = [FAULTS["500"]] * 8
    waits = []

    for asked in range(1, 8):
        pull()
        assert server.connections == asked
        pull()
        assert server.connections == asked
        wait = EventPull.objects.get().due_at - database_now()
        waits.append(round(wait.total_seconds()))
        later(waits[-1])

    assert waits == [15, 30, 60, 120, 240, 300, 300]


def test_the_third_failure_in_a_row_is_told_and_the_next_success_resolves_it(
    server: QueueServer, later: Later
) -> None:
    server.on_pull = [FAULTS[name] for name in ("500", "429", "401", "reset")]

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
    server: QueueServer, later: Later
) -> None:
    for _ in range(3):
        server.on_pull = [FAULTS["500"]] * 2
        for _ in range(3):
            pull()
            later(300)

    assert len(server.pulls) == 9
    assert not Alert.objects.exists()


def test_no_token_and_no_address_is_logged(
    server: QueueServer, later: Later, capsys: pytest.CaptureFixture[str]
) -> None:
    put(server, "one", "two")
    words = f"{TOKEN} is no token, says jo@example.net"
    server.on_pull = [error(403, words), "half", server._take]
    server.on_ack = [error(400, words)]
    for _ in range(3):
        pull()
        later(300)
        server.pass_time(LEASE_SECONDS)

    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]

    codes = [line.get("code") for line in lines if line["event"] == "event_pull_failed"]
    assert codes == ["pull_http_403", "pull_no_answer", "ack_http_400"]
    for word in (TOKEN, "example.net", "eyJhbG"):
        assert word not in json.dumps(lines)
    assert TOKEN not in repr(cloudflare_pull._queue())


def test_a_wrong_token_takes_nothing(server: QueueServer) -> None:
    put(server, "one")

    with pulling(server, PM_CF_API_TOKEN="wrong"):
        pull()

    assert len(server.queue.waiting) == 1
    assert stored() == []


def test_a_proxy_out_of_the_environment_is_not_asked(
    server: QueueServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(server, "one")
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
def test_of_two_pulls_at_once_one_asks_the_api(server: QueueServer) -> None:
    # Given a pull whose answer has not come yet
    put(server, "one")
    asked, answered = threading.Event(), threading.Event()

    def hold(seen: object) -> None:
        asked.set()
        answered.wait(10)

    server.before = hold
    first = threading.Thread(target=_pull_and_leave)
    first.start()
    until(asked.is_set)

    # When another worker's turn comes
    pull()

    # Then it asks nothing
    assert server.connections == 1
    answered.set()
    first.join(10)
    assert stored() == ["one"]
    assert (len(server.pulls), len(server.acks)) == (1, 1)


def _pull_and_leave() -> None:
    pull()
    connections.close_all()
