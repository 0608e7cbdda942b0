"""One call of an endpoint that somebody asks for, and what a 2xx is good for."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connection
from standardwebhooks import Webhook

from core.clock import database_now
from mailboxes.models import AuditRow, Event, Identity
from tests.factories import WebhookEndpointFactory
from tests.support.api import ApiClient, code_of, paths_of
from tests.support.webhook_rows import trusting
from tests.support.webhook_sink import WebhookSink
from webhooks import deliver, destination
from webhooks.api import waiting
from webhooks.api.endpoint_schemas import WebhookAttemptOut
from webhooks.models import WebhookAttempt, WebhookDispatch, WebhookEndpoint
from webhooks.statuses import DisabledReason as R

pytestmark = pytest.mark.django_db


@pytest.fixture
def sink(monkeypatch: pytest.MonkeyPatch) -> Iterator[WebhookSink]:
    """A receiver whose path says how it answers."""
    with WebhookSink() as running, trusting(monkeypatch):
        yield running


def endpoint_of(
    identity: Identity, url: str, reason: R | None = None
) -> WebhookEndpoint:
    made: WebhookEndpoint = WebhookEndpointFactory.create(
        tenant=identity.tenant,
        url=url,
        disabled_reason=reason,
        disabled_at=None if reason is None else database_now(),
    )
    return made


def call(client: ApiClient, endpoint: WebhookEndpoint, **more: Any) -> Any:
    return client.post(f"/v1/webhooks/{endpoint.id}/test", **more)


def reason_of(endpoint: WebhookEndpoint) -> str | None:
    endpoint.refresh_from_db()
    return endpoint.disabled_reason


def test_a_test_is_sent_at_once_and_returned(
    api: ApiClient, identity: Identity, sink: WebhookSink
) -> None:
    endpoint = endpoint_of(identity, sink.url("/ok"))

    answer = call(api, endpoint)

    assert answer.status_code == 200
    attempt = answer.json()
    WebhookAttemptOut.model_validate(attempt)
    assert (attempt["status"], attempt["http_status"]) == ("succeeded", 204)
    (seen,) = sink.received
    assert seen.id == attempt["event_id"]
    told = json.loads(seen.body)
    assert (told["type"], told["data"]) == ("webhook.test", {"message": "hello"})
    assert told["tenant_id"] == identity.tenant_id
    listed = api.get(f"/v1/webhooks/{endpoint.id}/deliveries").json()["data"]
    assert listed == [attempt]
    assert not Event.objects.exists()
    assert not WebhookDispatch.objects.exists()


@pytest.mark.parametrize(
    ("path", "error", "status"),
    [
        ("/status/500", "status_5xx", 500),
        ("/status/404", "status_4xx", 404),
        ("/redirect", "redirect", 302),
    ],
)
def test_a_test_that_fails_is_a_200_that_says_so(
    api: ApiClient,
    identity: Identity,
    sink: WebhookSink,
    path: str,
    error: str,
    status: int,
) -> None:
    endpoint = endpoint_of(identity, sink.url(path), R.URL_CHANGED)

    attempt = call(api, endpoint).json()

    assert (attempt["error"], attempt["http_status"]) == (error, status)
    assert attempt["next_attempt_at"] is None
    assert reason_of(endpoint) == R.URL_CHANGED
    assert endpoint.failures == 0


def test_a_new_url_is_on_once_a_test_of_it_is_answered_2xx(
    api: ApiClient, identity: Identity, sink: WebhookSink
) -> None:
    endpoint = endpoint_of(identity, sink.url("/status/500"))
    path = f"/v1/webhooks/{endpoint.id}"
    api.patch(path, {"url": sink.url("/ok/new")})
    assert api.get(path).json()["disabled_reason"] == "url_changed"

    assert call(api, endpoint).json()["status"] == "succeeded"

    assert api.get(path).json()["enabled"] is True
    row = AuditRow.objects.filter(action="webhook.update").latest("created_at")
    assert row.details == {"fields": ["enabled"], "disabled_reason": None}


@pytest.mark.parametrize("reason", [R.MANUAL, R.FAILING, R.GONE])
def test_a_2xx_turns_nothing_else_on(
    api: ApiClient, identity: Identity, sink: WebhookSink, reason: R
) -> None:
    endpoint = endpoint_of(identity, sink.url("/ok"), reason)

    assert call(api, endpoint).json()["status"] == "succeeded"

    assert reason_of(endpoint) == reason


def meanwhile(monkeypatch: pytest.MonkeyPatch, do: Callable[[], object]) -> None:
    """Let something happen while the receiver has the call."""
    try_now = deliver.try_now

    def slower(*given: Any, **more: Any) -> Any:
        do()
        return try_now(*given, **more)

    monkeypatch.setattr("webhooks.api.deliveries.try_now", slower)


def test_a_2xx_of_the_url_before_proves_nothing_of_the_new_one(
    api: ApiClient,
    identity: Identity,
    sink: WebhookSink,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    endpoint = endpoint_of(identity, sink.url("/ok"), R.URL_CHANGED)
    changed = {"url": sink.url("/status/500")}
    path = f"/v1/webhooks/{endpoint.id}"
    meanwhile(monkeypatch, lambda: api.patch(path, changed))

    assert call(api, endpoint).json()["status"] == "succeeded"

    assert reason_of(endpoint) == R.URL_CHANGED
    assert endpoint.url == changed["url"]


@pytest.mark.django_db(transaction=True)
def test_an_endpoint_that_is_deleted_during_its_test_is_gone(
    api: ApiClient,
    identity: Identity,
    sink: WebhookSink,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    endpoint = endpoint_of(identity, sink.url("/ok"))
    path = f"/v1/webhooks/{endpoint.id}"
    meanwhile(monkeypatch, lambda: api.delete(path))

    answer = call(api, endpoint)

    assert (answer.status_code, code_of(answer)) == (404, "webhook_not_found")
    assert not WebhookAttempt.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_no_host_is_waited_for_within_a_transaction(
    api: ApiClient,
    identity: Identity,
    sink: WebhookSink,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    in_transaction = []

    def look() -> None:
        in_transaction.append(connection.in_atomic_block)

    def looked_up(url: str) -> Any:
        look()
        return destination.check_destination(url)

    monkeypatch.setattr(waiting, "check_destination", looked_up)
    meanwhile(monkeypatch, look)
    body = {"url": sink.url("/ok"), "events": ["*"]}

    made = api.post(f"/v1/tenants/{identity.tenant_id}/webhooks", body, key="k").json()
    path = f"/v1/webhooks/{made['id']}"
    assert api.patch(path, {"url": sink.url("/ok/2")}).status_code == 200
    assert api.post(f"{path}/test", key="t").status_code == 200

    assert in_transaction == [False] * 3


def test_after_a_rotation_both_secrets_verify_the_new_ones_signature_first(
    api: ApiClient, identity: Identity, sink: WebhookSink
) -> None:
    body = {"url": sink.url("/ok"), "events": ["*"]}
    made = api.post(f"/v1/tenants/{identity.tenant_id}/webhooks", body).json()
    path = f"/v1/webhooks/{made['id']}"
    turned = api.post(f"{path}/rotate-secret", {"overlap_hours": 1}).json()

    api.post(f"{path}/test")

    (seen,) = sink.received
    for secret in (made["secret"], turned["secret"]):
        Webhook(secret).verify(seen.body.decode(), seen.headers)
    first = {**seen.headers}
    first["webhook-signature"] = seen.headers["webhook-signature"].split()[0]
    Webhook(turned["secret"]).verify(seen.body.decode(), first)


def test_a_repeat_under_its_key_calls_nobody(
    api: ApiClient, identity: Identity, sink: WebhookSink
) -> None:
    endpoint = endpoint_of(identity, sink.url("/ok"))
    first = call(api, endpoint, key="k1")

    again = call(api, endpoint, key="k1")

    assert (again.status_code, again.json()) == (200, first.json())
    assert again["Idempotent-Replayed"] == "true"
    assert len(sink.received) == 1


def test_slow_receivers_leave_threads_to_others(
    api: ApiClient, identity: Identity, sink: WebhookSink
) -> None:
    endpoint = endpoint_of(identity, sink.url("/ok"))
    held = [waiting.place_to_wait() for _ in range(waiting.MOST)]
    for one in held:
        one.__enter__()
    body = {"url": sink.url("/ok"), "events": ["*"]}
    try:
        refused = [
            call(api, endpoint),
            api.post(f"/v1/tenants/{identity.tenant_id}/webhooks", body),
        ]
    finally:
        for one in held:
            one.__exit__(None, None, None)

    for answer in refused:
        assert (answer.status_code, code_of(answer)) == (503, "unavailable")
    assert sink.received == []
    assert call(api, endpoint).status_code == 200


def test_a_test_takes_no_body(api: ApiClient, identity: Identity) -> None:
    endpoint = endpoint_of(identity, "https://127.0.0.1/hook")
    path = f"/v1/webhooks/{endpoint.id}/test"

    assert paths_of(api.post(path, {"event": "message.sent"})) == ["event"]
