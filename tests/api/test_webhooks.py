"""Endpoints made, listed and deleted, and their secrets."""

import base64
import re
from datetime import timedelta
from typing import Any

import pytest
from pytest_django import Settings

from core import clock
from core.clock import database_now
from core.ids import new_id
from mailboxes.key_services import create_key
from mailboxes.models import Alert, AuditRow, IdempotencyRecord, Identity
from mailboxes.scopes import Scope
from mailboxes.services import raise_alert
from tests.factories import IdentityFactory, WebhookEndpointFactory
from tests.support.api import ApiClient, code_of, paths_of
from tests.support.lived_in import called, told
from tests.support.webhook_rows import ring
from webhooks import claims
from webhooks.api.endpoint_schemas import (
    Webhook,
    WebhookAttemptPage,
    WebhookPage,
    WebhookWithSecret,
)
from webhooks.models import WebhookAttempt, WebhookDispatch, WebhookEndpoint
from webhooks.outcomes import Outcome
from webhooks.secrets import open_secrets
from webhooks.services import MOST_ENDPOINTS
from webhooks.statuses import AttemptError

pytestmark = pytest.mark.django_db
NOBODY = new_id("idn")


def wish(**changes: Any) -> dict[str, Any]:
    return {"url": "https://127.0.0.1/hook", "events": ["message.sent"], **changes}


def of_tenant(identity: Identity) -> str:
    return f"/v1/tenants/{identity.tenant_id}/webhooks"


def poor(identity: Identity, *scopes: Scope) -> ApiClient:
    key = create_key(name="poor", tenant=identity.tenant, permissions=scopes)
    return ApiClient(key.secret, identity.id)


def secrets_of(webhook_id: str) -> list[str]:
    endpoint = WebhookEndpoint.objects.get(id=webhook_id)
    return open_secrets(endpoint, now=database_now())


def same_but_for_the_request(*answers: Any) -> None:
    shown = [re.sub(r"req_[0-9A-Z]{26}", "", a.content.decode()) for a in answers]
    assert len(set(shown)) == 1, shown


# --- making


def test_an_endpoint_is_made_and_its_secret_shown_once(
    api: ApiClient, identity: Identity
) -> None:
    body = wish(identity_ids=[identity.id], description="to the CRM")

    answer = api.post(of_tenant(identity), body)

    made = answer.json()
    assert answer.status_code == 201
    WebhookWithSecret.model_validate(made)
    assert {n: made[n] for n in body} == body
    assert (made["scope"], made["tenant_id"]) == ("tenant", identity.tenant_id)
    assert (made["enabled"], made["disabled_reason"]) == (True, None)
    assert made["secret"].startswith("whsec_")
    assert len(base64.b64decode(made["secret"].removeprefix("whsec_"))) == 32
    assert secrets_of(made["id"]) == [made["secret"]]
    shown = api.get(f"/v1/webhooks/{made['id']}").json()
    assert shown == {n: v for n, v in made.items() if n != "secret"}


def test_neither_the_log_of_audits_nor_the_row_holds_secret_or_url_in_clear(
    api: ApiClient, identity: Identity
) -> None:
    made = api.post(of_tenant(identity), wish()).json()

    row = AuditRow.objects.get(action="webhook.create")
    assert (row.target_id, row.tenant_id) == (made["id"], identity.tenant_id)
    assert row.details == {"events": ["message.sent"]}
    stored = WebhookEndpoint.objects.values().get(id=made["id"])
    assert made["secret"] not in str(stored)


def test_the_platforms_endpoint_is_made_by_a_platform_key_alone(
    api: ApiClient, platform_api: ApiClient, identity: Identity
) -> None:
    made = platform_api.post("/v1/webhooks", wish(events=["*"])).json()

    assert (made["scope"], made["tenant_id"]) == ("platform", None)
    refused = api.post("/v1/webhooks", wish())
    assert (refused.status_code, code_of(refused)) == (403, "scope_denied")
    assert api.get(f"/v1/webhooks/{made['id']}").status_code == 404
    theirs = platform_api.post(of_tenant(identity), wish()).json()
    assert theirs["tenant_id"] == identity.tenant_id


@pytest.mark.parametrize(
    ("changes", "paths"),
    [
        ({"url": None}, ["url"]),
        ({"url": ""}, ["url"]),
        ({"url": "https://127.0.0.1/" + "x" * 2048}, ["url"]),
        ({"url": "ftp://127.0.0.1/"}, ["url"]),
        ({"events": []}, ["events"]),
        ({"events": "message.sent"}, ["events"]),
        ({"events": ["message.sent", "message.*"]}, ["events[1]"]),
        ({"events": ["nonsense", "message.sent", ""]}, ["events[0]", "events[2]"]),
        ({"identity_ids": []}, ["identity_ids"]),
        ({"identity_ids": [NOBODY]}, ["identity_ids[0]"]),
        ({"identity_ids": ["nonsense"]}, ["identity_ids[0]"]),
        ({"description": "a\nb"}, ["description"]),
        ({"description": "x" * 501}, ["description"]),
        ({"enabled": False}, ["enabled"]),
        ({"secret": "whsec_mine"}, ["secret"]),
        ({"tenant_id": "ten_x"}, ["tenant_id"]),
    ],
)
def test_a_malformed_wish_is_refused_with_its_path(
    api: ApiClient, identity: Identity, changes: dict[str, Any], paths: list[str]
) -> None:
    answer = api.post(of_tenant(identity), wish(**changes))

    assert (answer.status_code, paths_of(answer)) == (400, paths)
    assert not WebhookEndpoint.objects.exists()


@pytest.mark.parametrize(
    "url",
    [
        "http://hooks.example.com/",
        "https://127.0.0.1/",
        "https://[::ffff:127.0.0.1]/",
        "https://2130706433/",
        "https://0x7f000001/",
        "https://0177.0.0.1/",
        "https://localhost/",
        "https://db.internal/",
        "https://user:pass@hooks.example.com/",
        "https://hooks.example.com/#here",
        "https://hooks.example.com:25/",
    ],
)
def test_a_url_that_may_not_be_called_is_refused(
    api: ApiClient, identity: Identity, settings: Settings, url: str
) -> None:
    """R22, where an endpoint is saved."""
    endpoint = WebhookEndpointFactory.create(tenant=identity.tenant)
    settings.LOCAL = False

    for answer in (
        api.post(of_tenant(identity), wish(url=url)),
        api.patch(f"/v1/webhooks/{endpoint.id}", {"url": url}),
    ):
        assert (answer.status_code, paths_of(answer)) == (400, ["url"])
        assert url not in answer.content.decode()
    assert WebhookEndpoint.objects.get().url == endpoint.url


def test_a_name_that_leads_to_one_private_address_is_refused(
    api: ApiClient,
    identity: Identity,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """R22: beside a public one."""
    settings.LOCAL = False
    found = ["8.8.8.8", "10.0.0.1"]
    monkeypatch.setattr(
        "core.network.socket.getaddrinfo",
        lambda host, port, **_: [(2, 1, 6, "", (one, port)) for one in found],
    )
    body = wish(url="https://hooks.example.com/pylota")

    refused = api.post(of_tenant(identity), body)

    assert (refused.status_code, paths_of(refused)) == (400, ["url"])
    found.pop()
    assert api.post(of_tenant(identity), body).status_code == 201


def test_an_identity_of_another_tenant_is_not_there(
    api: ApiClient, identity: Identity
) -> None:
    foreign = IdentityFactory.create().id

    answers = [
        api.post(of_tenant(identity), wish(identity_ids=[identity.id, one]))
        for one in (foreign, NOBODY)
    ]

    assert paths_of(answers[0]) == ["identity_ids[1]"]
    same_but_for_the_request(*answers)


def test_types_and_identities_that_are_named_twice_count_once(
    api: ApiClient, identity: Identity
) -> None:
    body = wish(
        events=["message.sent", "*", "message.sent"],
        identity_ids=[identity.id, identity.id],
    )

    made = api.post(of_tenant(identity), body).json()

    assert made["events"] == ["message.sent", "*"]
    assert made["identity_ids"] == [identity.id]


@pytest.mark.parametrize("event", ["*", "message.sent", "message.received"])
def test_mail_is_told_of_to_those_who_may_read_it(
    identity: Identity, event: str
) -> None:
    """J29."""
    narrow = poor(identity, Scope.WEBHOOKS_MANAGE)

    refused = narrow.post(
        of_tenant(identity), wish(events=["tenant.policy_updated", event])
    )

    assert (refused.status_code, code_of(refused)) == (403, "permission_denied")
    required = refused.json()["error"]["details"]["required"]
    assert required == ["messages:read", "webhooks:manage"]
    other = wish(events=["tenant.policy_updated", "identity.paused"])
    assert narrow.post(of_tenant(identity), other).status_code == 201


def test_a_scope_that_lacks_is_told_before_any_host_is_looked_up(
    identity: Identity, settings: Settings
) -> None:
    settings.LOCAL = False
    narrow = poor(identity, Scope.WEBHOOKS_MANAGE)

    assert narrow.post(of_tenant(identity), wish()).status_code == 403


def test_twenty_endpoints_are_the_most_of_each_tenant_and_of_the_platform(
    api: ApiClient, platform_api: ApiClient, identity: Identity
) -> None:
    first = WebhookEndpointFactory.create_batch(20, tenant=identity.tenant)[0]

    refused = api.post(of_tenant(identity), wish())

    assert (refused.status_code, code_of(refused)) == (422, "webhook_limit_reached")
    assert refused.json()["error"]["details"] == {"limit": MOST_ENDPOINTS}
    other = of_tenant(IdentityFactory.create())
    assert platform_api.post(other, wish()).status_code == 201
    assert platform_api.post("/v1/webhooks", wish()).status_code == 201
    WebhookEndpointFactory.create_batch(19, tenant=None)
    assert code_of(platform_api.post("/v1/webhooks", wish())) == "webhook_limit_reached"
    assert api.delete(f"/v1/webhooks/{first.id}").status_code == 204
    assert api.post(of_tenant(identity), wish()).status_code == 201


def test_a_repeat_makes_no_second_endpoint_and_shows_no_secret(
    api: ApiClient, identity: Identity, settings: Settings
) -> None:
    made = api.post(of_tenant(identity), wish(), key="k1").json()
    settings.LOCAL = False  # the URL would be refused by now: a replay asks no rule

    again = api.post(of_tenant(identity), wish(), key="k1")

    assert again.status_code == 201
    assert again.json() == {
        **{n: v for n, v in made.items() if n != "secret"},
        "secret_replayed": False,
    }
    assert WebhookEndpoint.objects.count() == 1
    kept = IdempotencyRecord.objects.get()
    assert made["secret"] not in str(kept.response_body)


def test_a_refused_url_is_judged_again_under_the_same_key(
    api: ApiClient, identity: Identity, settings: Settings
) -> None:
    settings.LOCAL = False
    assert api.post(of_tenant(identity), wish(), key="k1").status_code == 400
    settings.LOCAL = True

    assert api.post(of_tenant(identity), wish(), key="k1").status_code == 201


# --- reading


def test_each_key_lists_what_it_reaches(
    api: ApiClient, platform_api: ApiClient, identity: Identity
) -> None:
    mine = WebhookEndpointFactory.create(tenant=identity.tenant)
    foreign = WebhookEndpointFactory.create()
    platforms = WebhookEndpointFactory.create(tenant=None)
    key = create_key(name="i", identity=identity)
    own = ApiClient(key.secret, identity.id)

    def listed(client: ApiClient, path: str = "/v1/webhooks") -> list[str]:
        page = client.get(path).json()
        WebhookPage.model_validate(page)
        return [one["id"] for one in page["data"]]

    for client in (api, own):
        assert listed(client) == listed(client, of_tenant(identity)) == [mine.id]
        assert listed(client, "/v1/webhooks?scope=platform") == []
    assert listed(platform_api) == [platforms.id, foreign.id, mine.id]
    assert listed(platform_api, "/v1/webhooks?scope=platform") == [platforms.id]
    assert listed(platform_api, of_tenant(identity)) == [mine.id]


def test_an_identitys_key_reads_its_tenants_endpoints_and_changes_none(
    identity: Identity,
) -> None:
    mine = WebhookEndpointFactory.create(tenant=identity.tenant)
    own = ApiClient(create_key(name="i", identity=identity).secret, identity.id)
    path = f"/v1/webhooks/{mine.id}"

    Webhook.model_validate(own.get(path).json())
    assert own.get(f"{path}/deliveries").status_code == 200
    for refused in (
        own.patch(path, {"description": "x"}),
        own.delete(path),
        own.post(of_tenant(identity), wish()),
        *(own.post(f"{path}/{do}") for do in ("rotate-secret", "test", "replay")),
    ):
        assert (refused.status_code, code_of(refused)) == (403, "permission_denied")


def test_reading_takes_its_scope_and_managing_holds_it(identity: Identity) -> None:
    mine = WebhookEndpointFactory.create(tenant=identity.tenant)
    path = f"/v1/webhooks/{mine.id}"

    assert poor(identity, Scope.MESSAGES_READ).get(path).status_code == 403
    assert poor(identity, Scope.WEBHOOKS_MANAGE).get(path).status_code == 200
    reader = poor(identity, Scope.WEBHOOKS_READ)
    assert reader.get(path).status_code == 200
    assert reader.delete(path).status_code == 403


def test_what_is_out_of_reach_is_not_there(
    api: ApiClient, platform_api: ApiClient
) -> None:
    ids = [
        new_id("whk"),
        "nonsense",
        WebhookEndpointFactory.create().id,
        WebhookEndpointFactory.create(tenant=None).id,
    ]
    for answers in (
        [api.get(f"/v1/webhooks/{one}") for one in ids],
        [api.get(f"/v1/webhooks/{one}/deliveries?status=no") for one in ids],
        [api.patch(f"/v1/webhooks/{one}", {"enabled": 1}) for one in ids],
        [api.delete(f"/v1/webhooks/{one}") for one in ids],
        [api.post(f"/v1/webhooks/{one}/rotate-secret") for one in ids],
        [api.post(f"/v1/webhooks/{one}/test", {"x": 1}) for one in ids],
        [api.post(f"/v1/webhooks/{one}/replay") for one in ids],
    ):
        assert (answers[0].status_code, code_of(answers[0])) == (
            404,
            "webhook_not_found",
        )
        same_but_for_the_request(*answers)
    assert WebhookEndpoint.objects.count() == 2


# --- deliveries


def test_attempts_are_listed_newest_first_and_filtered(
    api: ApiClient, identity: Identity
) -> None:
    endpoint = WebhookEndpointFactory.create(tenant=identity.tenant)
    called(WebhookEndpointFactory.create(tenant=identity.tenant))
    rows = [called(endpoint) for _ in range(3)]
    WebhookAttempt.objects.filter(id=rows[0].id).update(
        status="dead",
        event_type="message.bounced",
        http_status=None,
        error="timeout",
        created_at=database_now() - timedelta(hours=1),
    )

    def listed(query: str = "") -> list[str]:
        page = api.get(f"/v1/webhooks/{endpoint.id}/deliveries{query}").json()
        WebhookAttemptPage.model_validate(page)
        assert all(one["webhook_id"] == endpoint.id for one in page["data"])
        return [one["id"] for one in page["data"]]

    first, second, third = (row.id for row in rows)
    assert listed() == [third, second, first]
    assert listed("?status=dead") == [first]
    assert listed("?event_type=message.sent") == [third, second]
    assert listed("?status=dead&event_type=message.sent") == []
    since = (database_now() - timedelta(minutes=1)).isoformat().replace("+00:00", "Z")
    assert listed(f"?after={since}") == [third, second]
    answer = api.get(f"/v1/webhooks/{endpoint.id}/deliveries?status=open&after=now")
    assert sorted(paths_of(answer)) == ["after", "status"]


# --- secrets


def test_two_secrets_sign_until_the_overlap_ends(
    api: ApiClient, identity: Identity
) -> None:
    made = api.post(of_tenant(identity), wish()).json()
    path = f"/v1/webhooks/{made['id']}/rotate-secret"

    turned = api.post(path, {"overlap_hours": 2})

    assert turned.status_code == 200
    WebhookWithSecret.model_validate(turned.json())
    assert secrets_of(made["id"]) == [turned.json()["secret"], made["secret"]]
    clock.offset = timedelta(hours=2)
    assert secrets_of(made["id"]) == [turned.json()["secret"]]
    row = AuditRow.objects.get(action="webhook.rotate_secret")
    assert (row.target_id, row.details) == (made["id"], {"overlap_hours": 2})


def test_without_an_overlap_the_secret_before_ends_at_once(
    api: ApiClient, identity: Identity
) -> None:
    made = api.post(of_tenant(identity), wish()).json()
    path = f"/v1/webhooks/{made['id']}/rotate-secret"
    between = api.post(path).json()["secret"]
    assert secrets_of(made["id"]) == [between, made["secret"]]  # 24 h unless said

    last = api.post(path, {"overlap_hours": 0}).json()["secret"]

    assert secrets_of(made["id"]) == [last]


def test_a_second_rotation_ends_the_oldest(api: ApiClient, identity: Identity) -> None:
    made = api.post(of_tenant(identity), wish()).json()
    path = f"/v1/webhooks/{made['id']}/rotate-secret"

    second, third = (api.post(path).json()["secret"] for _ in range(2))

    assert secrets_of(made["id"]) == [third, second]


@pytest.mark.parametrize("hours", [-1, 169, 1.5, "24", None])
def test_an_overlap_is_a_whole_number_up_to_a_week(
    api: ApiClient, identity: Identity, hours: Any
) -> None:
    endpoint = WebhookEndpointFactory.create(tenant=identity.tenant)
    path = f"/v1/webhooks/{endpoint.id}/rotate-secret"

    assert paths_of(api.post(path, {"overlap_hours": hours})) == ["overlap_hours"]
    assert api.post(path, {"overlap_hours": 168}).status_code == 200


def test_a_repeated_rotation_turns_nothing_and_shows_no_secret(
    api: ApiClient, identity: Identity
) -> None:
    endpoint = WebhookEndpointFactory.create(tenant=identity.tenant)
    path = f"/v1/webhooks/{endpoint.id}/rotate-secret"
    turned = api.post(path, key="k1").json()

    again = api.post(path, key="k1").json()

    assert again.pop("secret_replayed") is False
    assert again == {n: v for n, v in turned.items() if n != "secret"}
    assert secrets_of(endpoint.id)[0] == turned["secret"]


def test_a_secret_that_does_not_open_any_more_is_replaced(
    api: ApiClient, identity: Identity
) -> None:
    """The seal of a master key that is lost: a rotation is the way out."""
    endpoint = WebhookEndpointFactory.create(tenant=identity.tenant, secret_enc="lost")
    raise_alert("webhook_secret_unavailable", subject=endpoint.id)

    turned = api.post(f"/v1/webhooks/{endpoint.id}/rotate-secret").json()

    assert secrets_of(endpoint.id) == [turned["secret"]]
    assert not Alert.objects.filter(resolved_at=None).exists()


# --- deleting


def test_a_deleted_endpoint_takes_along_what_was_on_its_way(
    api: ApiClient, identity: Identity
) -> None:
    event_id, now = told(identity), database_now()
    endpoint = WebhookEndpointFactory.create(tenant=identity.tenant)
    other = WebhookEndpointFactory.create(tenant=identity.tenant)
    for one in (endpoint, other):
        called(one)
        WebhookDispatch.objects.create(
            endpoint=one, event_id=event_id, event_type="message.sent", due_at=now
        )
    raise_alert("webhook_failing", subject=endpoint.id)

    answer = api.delete(f"/v1/webhooks/{endpoint.id}")

    assert (answer.status_code, answer.content) == (204, b"")
    for table in (WebhookDispatch, WebhookAttempt):
        assert [row.endpoint_id for row in table.objects.all()] == [other.id]
    assert api.get(f"/v1/webhooks/{endpoint.id}").status_code == 404
    assert api.delete(f"/v1/webhooks/{endpoint.id}").status_code == 404
    assert not Alert.objects.filter(resolved_at=None).exists()
    assert AuditRow.objects.get(action="webhook.delete").target_id == endpoint.id


def test_a_history_longer_than_a_batch_is_deleted_whole(
    api: ApiClient, identity: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webhooks.services.BATCH", 3)
    endpoint = WebhookEndpointFactory.create(tenant=identity.tenant)
    for _ in range(7):
        called(endpoint)

    assert api.delete(f"/v1/webhooks/{endpoint.id}").status_code == 204

    assert not WebhookAttempt.objects.exists()


def test_an_attempt_that_ends_after_the_deletion_leaves_nothing(
    api: ApiClient, identity: Identity
) -> None:
    endpoint = WebhookEndpointFactory.create(tenant=identity.tenant)
    told(identity)
    row = WebhookDispatch.objects.get(endpoint=endpoint)
    taken = claims.claim(ring(row))
    assert taken is not None

    assert api.delete(f"/v1/webhooks/{endpoint.id}").status_code == 204

    assert claims.record(taken, Outcome(AttemptError.TIMEOUT)) is None
    assert not WebhookAttempt.objects.exists()
