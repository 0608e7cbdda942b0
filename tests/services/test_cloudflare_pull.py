"""Pulling Cloudflare's events: stored before they are acknowledged, whatever fails."""

import json
from collections.abc import Callable

import pytest
from django.conf import settings

from core import points
from core.clock import database_now
from core.metrics import DELIVERY_UNKNOWN_TYPE
from delivery import cloudflare_pull, received, tasks, turns
from delivery.cloudflare_queue import CALL_SECONDS, LEASE_SECONDS
from delivery.models import EventPull, ProviderEvent, ReceivedBody
from delivery.services import apply_event
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
from tests.support.cloudflare_server import TOKEN, Say, envelope, error
from tests.support.pulling import pull, put, stored

pytestmark = pytest.mark.django_db
Later = Callable[[float], None]
A, B = "a@example.net", "b@example.net"


# --- one batch -----------------------------------------------------------------------


def test_an_event_is_stored_then_acknowledged_and_is_due_at_once(
    cloudflare: QueueServer,
) -> None:
    [name] = put(cloudflare, "one")
    before: list[list[str]] = []
    cloudflare.before = lambda seen: before.append([])
    points.planted["cloudflare_pull.stored"] = lambda: before.append(stored())

    pull()

    assert before == [[], [name], []]  # a lease, the inbox, the acknowledgement
    row = ProviderEvent.objects.get()
    assert (row.source, row.event_id, row.state) == ("cloudflare", name, "pending")
    assert row.due_at is not None
    assert row.due_at <= database_now()
    assert cloudflare.queue.waiting == {}


def test_the_requests_are_those_that_the_api_documents(cloudflare: QueueServer) -> None:
    put(cloudflare, "one")

    pull()

    leased, acknowledged = cloudflare.requests
    assert (leased.method, leased.path) == ("POST", f"{PATH}/pull")
    assert leased.json == {"batch_size": 100, "visibility_timeout_ms": 120_000}
    assert (acknowledged.method, acknowledged.path) == ("POST", f"{PATH}/ack")
    [lease_id] = cloudflare.queue.leases
    assert acknowledged.json == {"acks": [{"lease_id": lease_id}], "retries": []}
    for seen in cloudflare.requests:
        assert seen.headers["authorization"] == f"Bearer {TOKEN}"
        assert seen.headers["content-type"] == "application/json"


def test_a_lease_and_a_turn_outlive_what_a_batch_may_take() -> None:
    assert LEASE_SECONDS >= 2 * CALL_SECONDS + 60
    assert turns.TURN.total_seconds() >= 2 * CALL_SECONDS + 60


@pytest.mark.parametrize("result", [{"messages": []}, {"messages": None}, {}])
def test_an_empty_queue_is_asked_once_and_nothing_is_acknowledged(
    cloudflare: QueueServer, result: dict[str, object]
) -> None:
    cloudflare.on_pull = [Say(200, envelope({"message_backlog_count": 0, **result}))]

    pull()

    assert (len(cloudflare.pulls), len(cloudflare.acks)) == (1, 0)
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
    cloudflare: QueueServer, kind: str, status: str
) -> None:
    message = queued(A, B)
    work(message)
    cloudflare.put(
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
    cloudflare: QueueServer,
) -> None:
    # Given a send that the provider took, and said nothing of
    message = queued(A)
    cloudflare.steps = ["reset_after"]
    work(message)
    assert message.status == "uncertain"

    cloudflare.put(
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
    cloudflare: QueueServer, capsys: pytest.CaptureFixture[str]
) -> None:
    # Given a queue in which an event stands among much that is none
    counted = DELIVERY_UNKNOWN_TYPE._value.get()
    cloudflare.put(said("opened"))
    cloudflare.put({"type": "cf.r2.bucket.created"})
    unreadable = [
        cloudflare.put("no json, and jo@example.net", "text"),
        cloudflare.put("\x00/w9vIgR", "v8"),
        cloudflare.put("[1, 2", "bytes"),
        cloudflare.put(said("delivered", recipient="nobody")),
    ]
    [name] = put(cloudflare, "one")

    pull()

    assert stored() == [name]
    assert cloudflare.queue.waiting == {}
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
    cloudflare: QueueServer,
) -> None:
    for body in hostile():
        cloudflare.put(body)
    put(cloudflare, "one")

    pull()

    assert cloudflare.queue.waiting == {}
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
    cloudflare: QueueServer, entry: object
) -> None:
    # Given an answer that holds something strange before an event
    put(cloudflare, "one")
    listed = [entry, *cloudflare.queue.lease(100, 30)]
    cloudflare.on_pull = [Say(200, envelope({"messages": listed}))]

    pull()

    assert stored() == ["one"]
    assert cloudflare.queue.waiting == {}


def test_the_largest_batch_is_taken(cloudflare: QueueServer) -> None:
    for _ in range(100):
        cloudflare.put("x" * 127_900, "bytes")

    pull()

    assert cloudflare.queue.waiting == {}


# --- batches -------------------------------------------------------------------------


def test_what_cannot_be_read_is_kept_once_however_often_it_comes(
    cloudflare: QueueServer, later: Later
) -> None:
    cloudflare.put("\ud800 no json", "text")
    cloudflare.queue.waiting[cloudflare.put("")].body = {"no": ["type"]}
    cloudflare.on_ack = [error(500, "Internal server error", 10001)]

    for _ in range(2):
        pull()
        later(15)
        cloudflare.pass_time(LEASE_SECONDS)

    rows = ReceivedBody.objects.order_by("id")
    bodies = [received.opened(row.source, row.posted_id, row.sealed) for row in rows]
    assert bodies == [b"\\ud800 no json", b'{"no": ["type"]}']
    assert cloudflare.queue.waiting == {}


def test_a_full_batch_is_followed_by_the_next(cloudflare: QueueServer) -> None:
    names = put(cloudflare, *(f"{n:03}" for n in range(230)))

    pull()

    assert stored() == names
    assert cloudflare.queue.waiting == {}
    assert (len(cloudflare.pulls), len(cloudflare.acks)) == (3, 3)


def test_r17_one_event_published_46_times_is_one_row(cloudflare: QueueServer) -> None:
    put(cloudflare, *["one"] * 46)

    pull()

    assert stored() == ["one"]
    assert cloudflare.queue.waiting == {}


def test_a_turn_ends_after_so_many_batches(
    cloudflare: QueueServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cloudflare_pull, "MOST_BATCHES", 2)
    put(cloudflare, *(f"{n:03}" for n in range(230)))

    pull()
    assert len(stored()) == 200

    pull()
    assert len(stored()) == 230


def test_a_turn_ends_after_so_long(
    cloudflare: QueueServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cloudflare_pull, "MOST_SECONDS", 0.0)
    put(cloudflare, *(f"{n:03}" for n in range(230)))

    pull()

    assert len(cloudflare.pulls) == 1


def test_a_turn_that_was_lost_leases_no_more(cloudflare: QueueServer) -> None:
    # Given a worker that stood still until its turn was another's
    put(cloudflare, *(f"{n:03}" for n in range(230)))
    other = "00000000-0000-0000-0000-000000000000"

    def take_over() -> None:
        EventPull.objects.update(token=other)

    points.planted["cloudflare_pull.stored"] = take_over

    pull()

    # Then it stores and acknowledges what it holds, and leaves the other's turn alone
    assert (len(stored()), len(cloudflare.pulls), len(cloudflare.acks)) == (100, 1, 1)
    row = EventPull.objects.get()
    assert (str(row.token), row.failures) == (other, 0)
    assert row.due_at > database_now()
