"""One attempt after the other: what receivers get, and what is written of it."""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from pytest_django import Settings
from standardwebhooks import Webhook

from core import clock
from core.clock import database_now
from mailboxes.models import Alert, AuditRow, Event, Identity
from mailboxes.statuses import Severity
from tests.support.certificates import bad_context
from tests.support.counters import counts
from tests.support.webhook_rows import (
    endpoint_at,
    events_of_one,
    on_its_way,
    ring,
    rung_and_delivered,
    take_all,
    trusting,
)
from tests.support.webhook_sink import WebhookSink
from webhooks import claims, client, slots
from webhooks.deliver import deliver, try_now
from webhooks.models import WebhookAttempt, WebhookDispatch
from webhooks.outbox import number_all
from webhooks.outcomes import Outcome
from webhooks.schedule import DELAYS
from webhooks.secrets import open_secrets, seal_secret
from webhooks.signing import new_secret
from webhooks.statuses import AttemptError, DisabledReason

pytestmark = pytest.mark.django_db
SHORT = 0.3


@pytest.fixture(autouse=True)
def _slots() -> Iterator[None]:
    yield
    slots.process_slots.cache_clear()


@pytest.fixture
def sink(monkeypatch: pytest.MonkeyPatch) -> Iterator[WebhookSink]:
    with WebhookSink() as running, trusting(monkeypatch):
        yield running


def waiting(identity: Identity, url: str, **fields: object) -> WebhookDispatch:
    """Return the row of a new event for a new endpoint of the identity's tenant."""
    endpoint = endpoint_at(url, tenant=identity.tenant, **fields)
    return on_its_way(endpoint, events_of_one(identity)[0])


def attempts() -> list[tuple[object, ...]]:
    return list(
        WebhookAttempt.objects.order_by("attempt").values_list(
            "attempt", "status", "error", "http_status"
        )
    )


# --- what a receiver gets ------------------------------------------------------------


def test_a_receiver_gets_the_event_signed_and_as_it_is_published(
    identity: Identity, sink: WebhookSink
) -> None:
    # Given an endpoint in whose rotation two secrets count
    new, old = new_secret(), new_secret()
    row = waiting(identity, sink.url("/ok?a=b"), secret=new)
    endpoint = row.endpoint
    endpoint.prev_secret_enc = seal_secret(endpoint.id, old, is_previous=True)
    endpoint.prev_secret_until = database_now() + timedelta(hours=1)
    endpoint.save()

    # When its row is rung
    row = rung_and_delivered(row)

    # Then one request came, which both secrets verify
    (seen,) = sink.received
    for secret in (new, old):
        Webhook(secret).verify(seen.body, seen.headers)
    event = Event.objects.get()
    assert json.loads(seen.body) == event.payload
    assert seen.path == "/ok?a=b"
    assert seen.headers["webhook-id"] == event.id
    assert seen.headers["content-type"] == "application/json"
    assert seen.headers["user-agent"] == "PylotaMail/0.1.0"
    assert seen.headers["host"] == f"localhost:{sink.port}"
    assert not {"cookie", "forwarded", "x-forwarded-for", "via"} & seen.headers.keys()

    # And the row has come to its end
    assert (row.state, row.due_at, row.attempts) == ("succeeded", None, 1)
    assert attempts() == [(1, "succeeded", None, 204)]
    endpoint.refresh_from_db()
    assert endpoint.last_success_at is not None


def test_what_is_published_goes_to_who_asked_for_it(
    identity: Identity, sink: WebhookSink
) -> None:
    # Given an endpoint that asked for everything, and a change that is told
    endpoint = endpoint_at(sink.url("/ok"), tenant=identity.tenant)
    (event,) = events_of_one(identity)

    # When the outbox is emptied, and what is due is rung
    number_all()
    (rung,) = take_all()
    deliver(rung)

    # Then it came
    assert [seen.id for seen in sink.received] == [event.id]
    assert endpoint.dispatches.get().state == "succeeded"


def test_an_old_secret_whose_time_has_ended_signs_no_more(identity: Identity) -> None:
    new, old = new_secret(), new_secret()
    endpoint = endpoint_at("https://hooks.example.com/", secret=new)
    endpoint.prev_secret_enc = seal_secret(endpoint.id, old, is_previous=True)
    now = database_now()
    endpoint.prev_secret_until = now

    assert open_secrets(endpoint, now=now) == [new]
    assert open_secrets(endpoint, now=now - timedelta(seconds=1)) == [new, old]


def test_each_attempt_carries_one_id_and_the_same_octets(
    identity: Identity, sink: WebhookSink
) -> None:
    """R23: a receiver that fails or is too slow can tell the repeat."""
    row = waiting(identity, sink.url("/status/503"))

    for _ in range(4):
        row = rung_and_delivered(row)

    assert len({(seen.id, seen.body) for seen in sink.received}) == 1
    assert [seen[0] for seen in attempts()] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("path", "error", "status"),
    [
        ("/status/200", None, 200),
        ("/status/500", AttemptError.STATUS_5XX, 500),
        ("/status/404", AttemptError.STATUS_4XX, 404),
        ("/redirect", AttemptError.REDIRECT, 302),
        ("/nonsense", AttemptError.REDIRECT, 302),
        ("/cut", AttemptError.CONNECT, None),
        ("/hang", AttemptError.TIMEOUT, None),
        ("/drip", AttemptError.TIMEOUT, None),
        ("/endless", None, 200),
    ],
)
def test_every_end_of_a_request_has_its_name(
    identity: Identity,
    sink: WebhookSink,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    error: AttemptError | None,
    status: int | None,
) -> None:
    monkeypatch.setattr(client, "SECONDS", SHORT if "/status" not in path else 10)

    row = rung_and_delivered(waiting(identity, sink.url(path)))

    verdict = "succeeded" if error is None else "failed"
    assert attempts() == [(1, verdict, error, status)]
    assert row.state == ("succeeded" if error is None else "pending")
    assert sink.connections == len(sink.received) == 1


@pytest.mark.parametrize("kind", ["self_signed", "other_name", "expired"])
def test_a_certificate_that_nobody_vouches_for_is_a_failure_of_tls(
    identity: Identity, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    with WebhookSink(bad_context(kind)) as sink, trusting(monkeypatch):
        rung_and_delivered(waiting(identity, sink.url("/ok")))

        assert sink.received == []
    assert attempts() == [(1, "failed", AttemptError.TLS, None)]


def test_a_port_where_nobody_listens_is_a_failure_to_connect(
    identity: Identity,
) -> None:
    with WebhookSink() as gone:
        url = gone.url("/ok")

    rung_and_delivered(waiting(identity, url))

    assert attempts() == [(1, "failed", AttemptError.CONNECT, None)]


def test_a_name_without_an_address_is_a_failure_of_dns(identity: Identity) -> None:
    rung_and_delivered(waiting(identity, "https://no-such-host.invalid/"))

    assert attempts() == [(1, "failed", AttemptError.DNS, None)]


def test_a_redirect_is_not_followed(identity: Identity, sink: WebhookSink) -> None:
    """R22: a 302 to a private address."""
    rung_and_delivered(waiting(identity, sink.url("/redirect")))

    assert sink.connections == 1


# --- when it is tried again ----------------------------------------------------------


def test_thirteen_failures_are_the_end_and_the_waits_between_them_are_the_schedules(
    identity: Identity, sink: WebhookSink
) -> None:
    row = waiting(identity, sink.url("/status/500"))

    waits = []
    for _ in range(12):
        row = rung_and_delivered(row)
        attempt = WebhookAttempt.objects.get(attempt=row.attempts)
        assert attempt.next_attempt_at == row.due_at is not None
        waits.append((row.due_at - attempt.created_at) / DELAYS[row.step - 1])
    assert all(0.9 <= wait <= 1.1 for wait in waits)
    assert len(set(waits)) > 1
    row = rung_and_delivered(row)

    assert (row.state, row.due_at, row.attempts) == ("dead", None, 13)
    assert [status for _, status, _, _ in attempts()] == ["failed"] * 12 + ["dead"]


def test_waits_follow_the_scale(
    identity: Identity, sink: WebhookSink, settings: Settings
) -> None:
    settings.PM_BACKOFF_SCALE = 0.01

    row = rung_and_delivered(waiting(identity, sink.url("/status/500")))

    attempt = WebhookAttempt.objects.get()
    assert row.due_at is not None
    assert 0.27 <= (row.due_at - attempt.created_at).total_seconds() <= 0.33


def test_a_row_that_waits_is_not_tried_by_a_late_copy_of_its_ring(
    identity: Identity, sink: WebhookSink
) -> None:
    row = rung_and_delivered(waiting(identity, sink.url("/status/500")))

    for _ in range(3):
        deliver(str(row.pk))

    assert len(sink.received) == 1


def test_a_ring_of_a_row_that_is_not_there_does_nothing(sink: WebhookSink) -> None:
    deliver("987654321")

    assert sink.connections == 0


def test_an_event_that_is_gone_is_dead_at_once(
    identity: Identity, sink: WebhookSink
) -> None:
    row = waiting(identity, sink.url("/ok"))
    Event.objects.filter(id=row.event_id)._raw_delete("default")

    row = rung_and_delivered(row)

    assert row.state == "dead"
    assert attempts() == [(1, "dead", AttemptError.EVENT_UNAVAILABLE, None)]
    assert sink.connections == 0


def test_what_waits_for_a_disabled_endpoint_is_dead_and_can_be_replayed(
    identity: Identity, sink: WebhookSink
) -> None:
    row = waiting(
        identity,
        sink.url("/ok"),
        disabled_reason=DisabledReason.MANUAL,
        disabled_at=database_now(),
    )

    row = rung_and_delivered(row)
    assert row.state == "dead"
    assert attempts() == [(1, "dead", AttemptError.ENDPOINT_DISABLED, None)]
    assert sink.connections == 0

    # When it is enabled, and the event replayed
    row.endpoint.disabled_reason = row.endpoint.disabled_at = None
    row.endpoint.save()
    WebhookDispatch.objects.update(state="pending", step=0, due_at=database_now())
    row = rung_and_delivered(row)

    # Then the numbers go on
    assert row.state == "succeeded"
    assert attempts()[1] == (2, "succeeded", None, 204)


def test_a_secret_that_does_not_open_is_tried_again_and_somebody_is_woken(
    identity: Identity, sink: WebhookSink
) -> None:
    row = waiting(identity, sink.url("/ok"))
    sealed = row.endpoint.secret_enc
    row.endpoint.secret_enc = seal_secret("whk_of_another_row", new_secret())
    row.endpoint.save()

    row = rung_and_delivered(row)

    assert row.state == "pending"
    assert attempts() == [(1, "failed", AttemptError.SECRET_UNAVAILABLE, None)]
    alert = Alert.objects.get()
    assert (alert.name, alert.severity) == ("webhook_secret_unavailable", Severity.PAGE)
    assert alert.subject == row.endpoint_id
    row.endpoint.refresh_from_db()
    assert row.endpoint.failures == 0
    assert sink.connections == 0

    # And when it opens again, that is over
    row.endpoint.secret_enc = sealed
    row.endpoint.save()
    rung_and_delivered(row)
    alert.refresh_from_db()
    assert alert.resolved_at is not None


def test_an_attempt_that_breaks_is_a_failure_and_tells_the_log_no_url_and_no_secret(
    identity: Identity,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """A mistake of ours would come again each minute, for ever."""

    def break_down(url: str, body: bytes, **_: object) -> Outcome:
        raise RuntimeError(f"{url} {body!r}")

    monkeypatch.setattr(client, "post", break_down)
    secret = new_secret()
    row = waiting(identity, "https://localhost/hidden-token", secret=secret)

    row = rung_and_delivered(row)

    assert (row.state, row.step) == ("pending", 1)
    attempt = WebhookAttempt.objects.get()
    assert (attempt.error, attempt.detail) == (AttemptError.CONNECT, "RuntimeError")
    said = capfd.readouterr().err
    assert "webhook_broke" in said
    for hidden in ("hidden-token", secret, "jo@example.net"):
        assert hidden not in said


# --- endpoints that fail -------------------------------------------------------------


def test_410_switches_an_endpoint_off_at_once_and_the_platform_is_told(
    identity: Identity, sink: WebhookSink
) -> None:
    row = waiting(identity, sink.url("/status/410"))

    row = rung_and_delivered(row)

    assert row.state == "dead"
    assert attempts() == [(1, "dead", AttemptError.STATUS_410, 410)]
    endpoint = row.endpoint
    endpoint.refresh_from_db()
    assert endpoint.disabled_reason == DisabledReason.GONE
    assert endpoint.disabled_at is not None
    alert = Alert.objects.get(name="webhook_disabled")
    assert (alert.subject, alert.severity) == (endpoint.id, Severity.TICKET)
    event = Event.objects.get(type="webhook.disabled")
    assert event.payload["data"] == {"webhook_id": endpoint.id, "reason": "gone"}
    assert event.payload["tenant_id"] == identity.tenant_id
    assert event.payload["sequence"] is None
    assert AuditRow.objects.get(action="webhook.disable").target_id == endpoint.id


def test_an_endpoint_of_the_platform_is_told_of_too_and_each_time(
    identity: Identity, sink: WebhookSink
) -> None:
    endpoint = endpoint_at(sink.url("/status/410"))
    for event in events_of_one(identity, 2):
        endpoint.disabled_reason = endpoint.disabled_at = None
        endpoint.save()
        rung_and_delivered(on_its_way(endpoint, event))

    told = Event.objects.filter(type="webhook.disabled").order_by("seq")
    assert [(one.seq, one.tenant_id) for one in told] == [(1, None), (2, None)]
    assert {one.payload["tenant_id"] for one in told} == {None}


def test_a_hundred_failures_over_a_day_switch_an_endpoint_off(
    identity: Identity, sink: WebhookSink
) -> None:
    # Given an endpoint that failed 99 times, the first time a day ago
    row = waiting(
        identity,
        sink.url("/status/500"),
        failures=98,
        failing_since=database_now() - timedelta(hours=23, minutes=59),
    )
    endpoint = row.endpoint
    row = rung_and_delivered(row)
    endpoint.refresh_from_db()
    assert (endpoint.failures, endpoint.disabled_reason) == (99, None)

    # When it fails once more, more than a day after the first
    clock.offset = timedelta(minutes=2)
    row = rung_and_delivered(row)

    # Then it is off, and its event is not tried again by itself
    endpoint.refresh_from_db()
    assert endpoint.disabled_reason == DisabledReason.FAILING
    assert row.state == "dead"
    event = Event.objects.get(type="webhook.disabled")
    assert event.payload["data"]["reason"] == "failing"


def test_a_success_begins_the_count_anew_and_ends_the_alerts(
    identity: Identity, sink: WebhookSink
) -> None:
    since = database_now() - timedelta(days=2)
    row = waiting(identity, sink.url("/status/500"), failures=9, failing_since=since)
    endpoint = row.endpoint
    row = rung_and_delivered(row)
    alert = Alert.objects.get(name="webhook_failing")
    assert (alert.subject, alert.details["failures"]) == (endpoint.id, 10)

    endpoint.url = sink.url("/ok")
    endpoint.save(update_fields=["url"])
    rung_and_delivered(row)

    endpoint.refresh_from_db()
    assert (endpoint.failures, endpoint.failing_since) == (0, None)
    alert.refresh_from_db()
    assert alert.resolved_at is not None


def test_an_endpoint_deleted_during_its_attempt_leaves_nothing(
    identity: Identity, sink: WebhookSink
) -> None:
    row = waiting(identity, sink.url("/ok"))
    claim = claims.claim(ring(row))
    assert claim is not None
    row.endpoint.delete()

    assert claims.record(claim, Outcome(http_status=200)) is None
    assert not WebhookAttempt.objects.exists()


# --- what is counted -----------------------------------------------------------------


def test_each_end_is_counted_under_its_name(
    identity: Identity,
    sink: WebhookSink,
    django_capture_on_commit_callbacks: Any,
) -> None:
    good, gone = sink.url("/ok"), sink.url("/status/410")
    latency = "webhook_delivery_latency_ms_count"
    message = {"class": "message"}
    with (
        counts("webhook_attempts_total", 1, result="succeeded"),
        counts("webhook_attempts_total", 1, result="dead"),
        counts("webhook_dead_total", 1, **message),
        counts("webhook_disabled_total", 1, reason="gone"),
        counts(latency, 1, first_attempt="true", **message),
        django_capture_on_commit_callbacks(execute=True),
    ):
        rung_and_delivered(waiting(identity, good))
        rung_and_delivered(waiting(identity, gone))


# --- a test --------------------------------------------------------------------------


def test_a_test_is_one_attempt_that_is_returned_and_changes_nothing(
    identity: Identity, sink: WebhookSink
) -> None:
    # Given a disabled endpoint
    secret = new_secret()
    endpoint = endpoint_at(
        sink.url("/ok"),
        tenant=identity.tenant,
        secret=secret,
        disabled_reason=DisabledReason.URL_CHANGED,
        disabled_at=database_now(),
    )

    # When it is tried
    attempt = try_now(endpoint, now=database_now())

    # Then it got a test event, signed
    (seen,) = sink.received
    event = Webhook(secret).verify(seen.body, seen.headers)
    assert (event["type"], event["data"]) == ("webhook.test", {"message": "hello"})
    assert event["id"] == seen.id == attempt.event_id
    assert event["tenant_id"] == identity.tenant_id
    assert event["identity_id"] is event["sequence"] is None
    assert (attempt.status, attempt.attempt, attempt.http_status) == (
        *("succeeded", 1, 204),
    )

    # And nothing else is written
    assert WebhookAttempt.objects.get() == attempt
    assert not Event.objects.exists()
    assert not WebhookDispatch.objects.exists()
    endpoint.refresh_from_db()
    assert endpoint.disabled_reason == DisabledReason.URL_CHANGED


def test_a_failed_test_says_why_and_counts_no_failure(
    identity: Identity, sink: WebhookSink
) -> None:
    endpoint = endpoint_at(sink.url("/status/500"), tenant=identity.tenant)

    attempt = try_now(endpoint, now=database_now())

    assert (attempt.status, attempt.error) == ("dead", AttemptError.STATUS_5XX)
    assert attempt.next_attempt_at is None
    endpoint.refresh_from_db()
    assert endpoint.failures == 0
