"""Rate limits: what a full bucket answers, and that buckets do not mix."""

import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client
from limits import RateLimitItemPerMinute

from mailboxes.key_services import create_key
from mailboxes.models import ApiKey, Identity
from pylota import settings as defaults
from pylota.api import buckets
from tests.factories import TenantFactory
from tests.support.answering import received
from tests.support.api import ApiClient, booking, code_of

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _empty_buckets() -> Iterator[None]:
    """Start and end with nothing counted."""
    buckets.limiter.cache_clear()
    yield
    buckets.limiter.cache_clear()


def assert_refused(response: Any, bucket: str, limit: int) -> None:
    assert (response.status_code, code_of(response)) == (429, "rate_limited")
    details = response.json()["error"]["details"]
    assert details["bucket"] == bucket
    assert 1 <= details["retry_after"] <= 60
    assert response["Retry-After"] == str(details["retry_after"])
    assert response["RateLimit-Reset"] == response["Retry-After"]
    assert response["RateLimit-Limit"] == str(limit)


def test_a_key_has_its_calls_a_minute(api: ApiClient, settings: Any) -> None:
    settings.PM_RATE_PER_KEY = 2

    answers = [api.get("/v1/me") for _ in range(3)]

    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert answers[0]["RateLimit-Limit"] == "2"
    assert_refused(answers[2], "key", 2)


def test_all_keys_of_a_tenant_share_a_bucket(
    api: ApiClient, identity: Identity, settings: Any
) -> None:
    settings.PM_RATE_PER_TENANT = 2
    other = ApiClient(create_key(name="b", tenant=identity.tenant).secret, "")

    assert api.get("/v1/me").status_code == other.get("/v1/me").status_code == 200
    assert_refused(api.get("/v1/me"), "tenant", 2)


def test_sends_of_an_identity_are_counted_before_anything_of_them_is_read(
    api: ApiClient, settings: Any
) -> None:
    settings.PM_RATE_SENDS = 2
    api.send(booking())
    api.send("no json")

    assert_refused(api.send(booking()), "send", 2)
    assert api.get(api.path).status_code == 200


def test_a_stranger_cannot_use_up_the_sends_of_an_identity(
    api: ApiClient, settings: Any
) -> None:
    settings.PM_RATE_SENDS = 1

    stranger = ApiClient(create_key(name="x", tenant=TenantFactory.create()).secret, "")
    for _ in range(3):
        stranger.send(booking(), path=api.path)

    assert api.send(booking()).status_code == 202


def test_refused_keys_are_counted_by_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buckets, "FAILURES_PER_MINUTE", 2)

    answers = [Client().get("/v1/me") for _ in range(3)]
    elsewhere = Client(REMOTE_ADDR="192.0.2.7").get("/v1/me")

    assert [answer.status_code for answer in answers] == [401, 401, 429]
    assert_refused(answers[2], "client", 2)
    assert elsewhere.status_code == 401


def test_a_redis_that_is_away_limits_nobody(api: ApiClient, settings: Any) -> None:
    settings.PM_REDIS_URL = "redis://127.0.0.1:1/0"
    settings.PM_RATE_PER_KEY = 1

    assert [api.get("/v1/me").status_code for _ in range(3)] == [200, 200, 200]


def test_a_redis_that_never_answers_holds_nobody_up(
    api: ApiClient, settings: Any
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        settings.PM_REDIS_URL = f"redis://127.0.0.1:{silent.getsockname()[1]}/0"
        settings.PM_RATE_PER_KEY = 1
        started = time.monotonic()

        assert api.get("/v1/me").status_code == 200
        assert time.monotonic() - started < 5


DEFAULTS = {"PM_RATE_PER_KEY": 600, "PM_RATE_PER_TENANT": 1800, "PM_RATE_SENDS": 120}


def fill(bucket: str, *identifiers: str, calls: int, limit: int) -> None:
    """Count calls that were made already."""
    item = RateLimitItemPerMinute(limit)
    assert buckets.limiter().hit(item, bucket, *identifiers, cost=calls)


@pytest.mark.parametrize(
    ("bucket", "limit"), [("key", 600), ("tenant", 1800), ("send", 120)]
)
def test_the_call_past_the_default_of_each_bucket_is_refused(
    api: ApiClient, identity: Identity, settings: Any, bucket: str, limit: int
) -> None:
    for name in DEFAULTS:
        setattr(settings, name, getattr(defaults, name))
    whose = {
        "key": [ApiKey.objects.get().id],
        "tenant": [identity.tenant_id],
        "send": [identity.tenant_id, identity.id],
    }
    fill(bucket, *whose[bucket], calls=limit - 1, limit=limit)

    assert api.send(booking(), key="last").status_code == 202
    assert_refused(api.send(booking(), key="past"), bucket, limit)


def test_a_hundred_and_twenty_sends_a_minute_are_the_default(
    api: ApiClient, settings: Any
) -> None:
    settings.PM_RATE_SENDS = defaults.PM_RATE_SENDS

    answers = [api.send("no json") for _ in range(120)]

    assert {answer.status_code for answer in answers} == {400}
    assert_refused(api.send(booking()), "send", 120)


@pytest.mark.parametrize("route", ["reply", "reply-all", "forward"])
def test_every_way_to_send_counts_in_the_bucket_of_sends(
    api: ApiClient, settings: Any, route: str
) -> None:
    settings.PM_RATE_SENDS, settings.PM_RATE_PER_KEY = 2, 600
    asked = received(Identity.objects.get(id=api.identity_id))
    body = {"to": ["jo@example.net"]} if route == "forward" else {"text": "x"}

    api.send(booking())
    within = api.answer(route, asked.public_id, body, key="a")
    past = api.answer(route, asked.public_id, body, key="b", query="?dry_run=true")

    assert (within.status_code, within["RateLimit-Limit"]) == (202, "600")
    assert (past.status_code, code_of(past)) == (429, "rate_limited")
    assert past["RateLimit-Limit"] == "2"
    assert past["Retry-After"] == past["RateLimit-Reset"]
    assert past.json()["error"]["details"]["bucket"] == "send"
