"""POSTs that send no mail, repeated under one Idempotency-Key."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier
from typing import Any

import pytest
from django.db import connections
from pytest_django import Settings

from core.clock import database_now
from mailboxes import repeats
from mailboxes.key_services import create_key
from mailboxes.models import AuditRow, IdempotencyRecord, SigningKey
from mailboxes.scopes import Scope
from tests.support.api import ApiClient, code_of, paths_of

pytestmark = pytest.mark.django_db(transaction=True)

ROTATE = "/v1/platform/keys/link/rotate"


def test_a_repeat_gets_the_first_answer_and_does_nothing(
    platform_api: ApiClient,
) -> None:
    links = SigningKey.objects.filter(purpose="link")
    before = links.count()  # the first of all is kept, whatever becomes of its request

    first = platform_api.post(ROTATE, key="k1")
    again = platform_api.post(ROTATE, key="k1")

    assert first.status_code == 200
    assert "Idempotent-Replayed" not in first.headers
    assert again.headers["Idempotent-Replayed"] == "true"
    assert again.json() == first.json()
    assert links.count() == before + 1
    assert AuditRow.objects.count() == 1


def test_another_request_under_the_key_is_a_conflict(platform_api: ApiClient) -> None:
    platform_api.post(ROTATE, key="k1")

    for path in (f"{ROTATE}?revoke_previous=true", "/v1/platform/keys/cursor/rotate"):
        answer = platform_api.post(path, key="k1")
        assert (answer.status_code, code_of(answer)) == (409, "idempotency_conflict")


def test_the_key_of_another_caller_is_another_key(platform_api: ApiClient) -> None:
    other = ApiClient(create_key(name="other").secret, "")

    kids = {c.post(ROTATE, key="k1").json()["kid"] for c in (platform_api, other)}

    assert len(kids) == 2


def test_a_refusal_is_not_remembered(platform_api: ApiClient) -> None:
    wrong = platform_api.post("/v1/platform/keys/nothing/rotate", key="k1")

    assert code_of(wrong) == "route_not_found"
    assert platform_api.post(ROTATE, key="k1").status_code == 200


def test_without_a_key_every_call_counts(platform_api: ApiClient) -> None:
    kids = {platform_api.post(ROTATE).json()["kid"] for _ in range(3)}

    assert len(kids) == 3
    assert not IdempotencyRecord.objects.exists()


@pytest.mark.parametrize("key", ["", "é", "k" * 256])
def test_a_malformed_key_is_refused_here_too(platform_api: ApiClient, key: str) -> None:
    answer = platform_api.post(ROTATE, key=key)

    assert (answer.status_code, code_of(answer)) == (400, "invalid_idempotency_key")


def test_a_body_where_none_belongs_is_refused_with_its_path(
    platform_api: ApiClient,
) -> None:
    assert platform_api.post(ROTATE, {}).status_code == 200
    assert paths_of(platform_api.post(ROTATE, {"x": 1})) == ["x"]
    assert paths_of(platform_api.post(f"{ROTATE}?x=1")) == ["x"]


def test_twenty_at_once_do_it_once(platform_api: ApiClient) -> None:
    ready = Barrier(20)

    def call(_: int) -> Any:
        client = ApiClient(platform_api.secret, "")
        ready.wait()
        try:
            return client.post(ROTATE, key="k1")
        finally:
            connections.close_all()

    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(call, range(20)))

    codes = [code_of(a) for a in answers if a.status_code != 200]
    assert set(codes) <= {"request_in_progress"}
    assert len({a.json()["kid"] for a in answers if a.status_code == 200}) == 1
    assert SigningKey.objects.filter(purpose="link").count() == 1


def test_a_key_is_new_again_when_its_time_has_ended(
    platform_api: ApiClient, settings: Settings
) -> None:
    first = platform_api.post(ROTATE, key="k1").json()
    IdempotencyRecord.objects.update(expires_at=database_now() - timedelta(seconds=1))

    second = platform_api.post(ROTATE, key="k1")

    assert second.json()["kid"] != first["kid"]
    assert "Idempotent-Replayed" not in second.headers
    assert platform_api.post(ROTATE, key="k1").json() == second.json()
    settings.PM_IDEMPOTENCY_DAYS = 0
    platform_api.post(ROTATE, key="k2")
    IdempotencyRecord.objects.exclude(expires_at=None).update(
        expires_at=database_now() - timedelta(seconds=1)
    )
    assert repeats.purge_answers() == 1
    assert IdempotencyRecord.objects.get().expires_at is None


def test_a_rotation_needs_the_platforms_own_scope(db: None) -> None:
    key = create_key(name="p", permissions=[Scope.TENANTS_MANAGE])

    answer = ApiClient(key.secret, "").post(ROTATE)

    assert (answer.status_code, code_of(answer)) == (403, "permission_denied")
    assert answer.json()["error"]["details"]["required"] == ["platform:ops"]


def test_a_revoked_key_verifies_no_more(platform_api: ApiClient) -> None:
    platform_api.post(ROTATE)
    platform_api.post(f"{ROTATE}?revoke_previous=true")

    assert SigningKey.objects.get(purpose="link").verify_until is None
