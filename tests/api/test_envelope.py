"""Every answer that is not 2xx has the envelope; every answer has a Request-Id."""

import json
import re
from typing import Any
from unittest.mock import patch

import pytest
from django.db import OperationalError
from django.test import Client

from core.schemas import Error
from mailboxes.key_services import create_key
from mailboxes.models import ApiKey, Identity
from mailboxes.scopes import Scope
from mailboxes.statuses import KeyLevel
from tests.factories import AddressFactory, MessageFactory, TenantFactory
from tests.support.api import ApiClient, assert_fix_can_be_followed, booking, code_of

pytestmark = pytest.mark.django_db

REQUEST_ID = re.compile(r"req_[0-9A-HJKMNP-TV-Z]{26}")


def assert_refused(response: Any, status: int, code: str) -> None:
    assert response.status_code == status, response.content
    error = Error.model_validate(response.json()).error
    assert error.code == code
    assert_fix_can_be_followed(response)
    assert error.request_id == response["Request-Id"]
    assert REQUEST_ID.fullmatch(error.request_id)


@pytest.mark.parametrize(
    "path", ["/v1", "/v1/", "/v1/nothing", "/v1/me/", "/health/", "/v2/me"]
)
def test_a_path_that_is_not_there(path: str) -> None:
    assert_refused(Client().get(path), 404, "route_not_found")


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("DELETE", "/v1/me", "GET, HEAD"),
        ("POST", "/health", "GET, HEAD"),
        ("PUT", None, "GET, POST, HEAD"),
        ("OPTIONS", None, "GET, POST, HEAD"),
        ("TRACE", None, "GET, POST, HEAD"),
    ],
)
def test_a_verb_that_the_path_does_not_know(
    api: ApiClient, method: str, path: str | None, allow: str
) -> None:
    response = api.request(
        method, path or api.path, headers={"Authorization": f"Bearer {api.secret}"}
    )

    assert_refused(response, 405, "method_not_allowed")
    assert set(response["Allow"].split(", ")) == set(allow.split(", "))


@pytest.mark.parametrize("verb", ["TRACE", "OPTIONS", "DELETE"])
def test_a_verb_is_not_known_whatever_parameters_come_with_it(
    api: ApiClient, verb: str
) -> None:
    headers = {"Authorization": f"Bearer {api.secret}"}

    response = api.request(verb, f"{api.path}?unknown=1", headers=headers)

    assert_refused(response, 405, "method_not_allowed")


def test_a_bug_is_a_500_that_says_nothing_of_it(
    api: ApiClient, capsys: pytest.CaptureFixture[str]
) -> None:
    client = Client(raise_request_exception=False)
    with patch("outbound.api.messages.page_of", side_effect=ValueError("secret words")):
        response = client.get(
            api.path, headers={"Authorization": f"Bearer {api.secret}"}
        )

    assert_refused(response, 500, "internal_error")
    assert b"secret" not in response.content
    assert "secret words" not in capsys.readouterr().err


def test_a_database_that_is_away_is_a_503(api: ApiClient) -> None:
    with patch("mailboxes.selectors.fetch_one", side_effect=OperationalError("gone")):
        response = api.get("/v1/me")

    assert_refused(response, 503, "unavailable")
    assert response.json()["error"]["retryable"] is True


def test_a_host_that_is_not_ours_is_refused_in_the_envelope(
    settings: Any,
) -> None:
    settings.ALLOWED_HOSTS = ["mail.example.com"]

    response = Client().get("/health", headers={"Host": "evil.example"})

    assert_refused(response, 400, "invalid_request")


def test_a_body_is_refused_by_its_length_before_it_is_read(api: ApiClient) -> None:
    headers = {"Authorization": f"Bearer {api.secret}", "Idempotency-Key": "k"}
    long = api.request(
        "POST", api.path, data="{}", headers=headers, CONTENT_LENGTH=7 * 2**20 + 1
    )
    none = api.request("POST", api.path, headers=headers)
    chunked = api.request(
        "POST",
        api.path,
        data="{}",
        headers={**headers, "Transfer-Encoding": "chunked"},
    )

    assert_refused(long, 413, "payload_too_large")
    assert_refused(none, 411, "length_required")
    assert_refused(chunked, 411, "length_required")


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer x",
        "Basic dXNlcjpwYXNz",
        "Bearer pmk_live_000000000000_" + "0" * 52,
    ],
)
def test_no_usable_key_is_one_answer_for_every_cause(header: str | None) -> None:
    headers = {} if header is None else {"Authorization": header}

    response = Client().get("/v1/me", headers=headers)

    assert_refused(response, 401, "unauthenticated")
    assert response["WWW-Authenticate"] == "Bearer"
    assert response.json()["error"]["message"] == "No usable API key."


def test_a_right_lookup_with_a_wrong_secret_is_no_key(api: ApiClient) -> None:
    wrong = api.secret[:-1] + ("0" if api.secret[-1] != "0" else "1")

    response = Client().get("/v1/me", headers={"Authorization": f"Bearer {wrong}"})

    assert_refused(response, 401, "unauthenticated")


def test_a_key_of_the_other_mode_is_no_key(api: ApiClient) -> None:
    ApiKey.objects.update(mode="test")

    assert_refused(api.get("/v1/me"), 401, "unauthenticated")


def test_only_the_holder_learns_that_a_key_is_revoked_or_over(api: ApiClient) -> None:
    ApiKey.objects.update(expires_at="2020-01-01T00:00Z")
    assert_refused(api.get("/v1/me"), 401, "key_expired")

    ApiKey.objects.update(revoked_at="2020-01-01T00:00Z")
    assert_refused(api.get("/v1/me"), 401, "key_revoked")


def test_a_key_without_the_scope_is_told_which_one(identity: Identity) -> None:
    made = create_key(
        name="r", tenant=identity.tenant, permissions=[Scope.MESSAGES_READ]
    )
    reader = ApiClient(made.secret, identity.id)

    response = reader.send(booking())

    assert_refused(response, 403, "permission_denied")
    assert response.json()["error"]["details"] == {"required": ["messages:send"]}
    assert reader.get(reader.path).status_code == 200


def without_request_id(response: Any) -> Any:
    return json.loads(
        response.content.replace(response["Request-Id"].encode(), b"req_")
    )


def test_what_is_out_of_reach_is_answered_like_what_does_not_exist(
    api: ApiClient,
) -> None:
    theirs = AddressFactory.create().identity
    message = MessageFactory.create(thread__identity=theirs)
    nobody = "idn_" + "0" * 26
    for suffix in ("", f"/{message.public_id}", f"/{message.public_id}/attempts"):
        foreign = api.get(f"/v1/identities/{theirs.id}/messages{suffix}")
        missing = api.get(f"/v1/identities/{nobody}/messages{suffix}")
        assert_refused(foreign, 404, "identity_not_found")
        assert without_request_id(foreign) == without_request_id(missing)
    mine = api.get(f"{api.path}/{message.public_id}")
    none = api.get(f"{api.path}/msg_{'0' * 26}")
    assert_refused(mine, 404, "message_not_found")
    assert without_request_id(mine) == without_request_id(none)


@pytest.mark.parametrize("key", ["k", None, ""])
@pytest.mark.parametrize("body", [booking(), {}, "no json", {"to": [1]}])
def test_sending_as_another_tenants_identity_is_sending_as_nobody(
    api: ApiClient, body: Any, key: str | None
) -> None:
    theirs = AddressFactory.create().identity

    foreign = api.send(body, key=key, path=f"/v1/identities/{theirs.id}/messages")
    missing = api.send(body, key=key, path="/v1/identities/nonsense/messages")

    assert_refused(foreign, 404, "identity_not_found")
    assert without_request_id(foreign) == without_request_id(missing)


def test_a_key_of_another_tenant_never_sees_the_ledger(api: ApiClient) -> None:
    api.send(booking(), key="shared")
    other = AddressFactory.create().identity
    stranger = ApiClient(create_key(name="x", tenant=other.tenant).secret, other.id)

    assert_refused(
        stranger.send(booking(), key="shared", path=api.path), 404, "identity_not_found"
    )
    assert stranger.send(booking(), key="shared").json()["deduplicated"] is False


def test_an_identity_key_reaches_its_identity_only(identity: Identity) -> None:
    made = create_key(name="mine", identity=identity)
    sibling = AddressFactory.create(identity__tenant=identity.tenant).identity
    mine = ApiClient(made.secret, identity.id)

    assert mine.send(booking()).status_code == 202
    assert_refused(
        mine.send(booking(), path=f"/v1/identities/{sibling.id}/messages"),
        404,
        "identity_not_found",
    )


def test_a_platform_key_reaches_every_identity(identity: Identity) -> None:
    first = create_key(name="first")

    assert first.key.level == KeyLevel.PLATFORM
    assert ApiClient(first.secret, identity.id).send(booking()).status_code == 202


def test_me_shows_the_calling_key_without_its_secret() -> None:
    tenant = TenantFactory.create()
    made = create_key(name="demo", tenant=tenant, permissions=[Scope.MESSAGES_SEND])

    response = ApiClient(made.secret, "").get("/v1/me")

    body = response.json()
    assert (body["id"], body["level"], body["tenant_id"]) == (
        made.key.id,
        "tenant",
        tenant.id,
    )
    assert body["permissions"] == ["messages:send", "usage:read"]
    assert made.secret not in response.content.decode()
    assert made.key.hash not in response.content.decode()


def test_last_use_is_written_after_the_answer_and_once_a_minute(
    api: ApiClient,
) -> None:
    assert api.get("/v1/me").json()["last_used_at"] is None
    first = ApiKey.objects.get().last_used_at
    assert first is not None

    api.get("/v1/me")

    assert ApiKey.objects.get().last_used_at == first


def test_answers_carry_the_headers_of_an_api(api: ApiClient) -> None:
    response = api.get("/v1/me")

    assert response["X-Content-Type-Options"] == "nosniff"
    assert response["Referrer-Policy"] == "no-referrer"
    assert response["Strict-Transport-Security"] == "max-age=31536000"
    assert response["Cache-Control"] == "no-store"
    assert not response.cookies


def test_health_asks_nothing_and_needs_no_key(
    django_assert_num_queries: Any,
) -> None:
    with django_assert_num_queries(0):
        response = Client().get("/health")

    assert response.json() == {"status": "ok"}
    assert REQUEST_ID.fullmatch(response["Request-Id"])


def test_a_browsers_accept_header_still_gets_json() -> None:
    response = Client().get("/health", headers={"Accept": "text/html"})

    assert (response.status_code, response["Content-Type"]) == (200, "application/json")


def test_refusals_name_what_they_are_in_the_log_and_nothing_else(
    api: ApiClient, capsys: pytest.CaptureFixture[str]
) -> None:
    canary = "canary-7f3a"
    api.send(
        booking(
            to=[f"{canary}@example.net"],
            subject=canary,
            text=canary,
            metadata={"a": canary},
        ),
        key=canary,
    )
    api.send({"to": [canary], canary: 1}, key="k2")
    api.send(booking(to=[canary]), key="k3")

    logged = capsys.readouterr().err
    assert code_of(api.send({}, key="k4")) == "invalid_request"
    assert '"event": "http.request"' in logged
    assert canary not in logged
    assert api.secret not in logged
