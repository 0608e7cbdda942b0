"""Endpoints changed, turned off and on again."""

from collections.abc import Mapping
from typing import Any

import pytest

from core.clock import database_now
from core.ids import new_id
from mailboxes.key_services import create_key
from mailboxes.models import Alert, AuditRow, Event, Identity
from mailboxes.scopes import Scope
from mailboxes.services import raise_alert
from tests.factories import IdentityFactory, WebhookEndpointFactory
from tests.support.api import ApiClient, code_of, paths_of
from webhooks.models import WebhookEndpoint
from webhooks.statuses import DisabledReason as R

pytestmark = pytest.mark.django_db
NEW_URL = "https://127.0.0.1/other"


@pytest.fixture
def endpoint(identity: Identity) -> WebhookEndpoint:
    """An endpoint that is told of mail."""
    made: WebhookEndpoint = WebhookEndpointFactory.create(
        tenant=identity.tenant, events=["message.sent"]
    )
    return made


def patch(client: ApiClient, endpoint: WebhookEndpoint, body: Any) -> Any:
    return client.patch(f"/v1/webhooks/{endpoint.id}", body)


def turn_off(endpoint: WebhookEndpoint, reason: R) -> None:
    now = database_now()
    WebhookEndpoint.objects.filter(id=endpoint.id).update(
        disabled_reason=reason, disabled_at=now, failures=100, failing_since=now
    )


def state(endpoint: WebhookEndpoint) -> tuple[Any, ...]:
    endpoint.refresh_from_db()
    shown = (endpoint.disabled_reason, endpoint.failures, endpoint.failing_since)
    assert (endpoint.disabled_at is None) is (endpoint.disabled_reason is None)
    return shown


def test_what_is_named_changes_and_null_resets(
    api: ApiClient, endpoint: WebhookEndpoint, identity: Identity
) -> None:
    body = {"identity_ids": [identity.id], "description": "a", "events": ["*"]}

    changed = patch(api, endpoint, body).json()

    assert {name: changed[name] for name in body} == body
    assert changed["updated_at"] > changed["created_at"]
    row = AuditRow.objects.get(action="webhook.update")
    assert row.details == {
        "fields": ["description", "events", "identity_ids"],
        "disabled_reason": None,
    }
    reset = patch(api, endpoint, {"identity_ids": None, "description": None}).json()
    assert (reset["identity_ids"], reset["description"]) == (None, None)
    assert reset["events"] == ["*"]


def test_what_changes_nothing_writes_nothing(
    api: ApiClient, endpoint: WebhookEndpoint
) -> None:
    before = api.get(f"/v1/webhooks/{endpoint.id}").json()

    for body in (
        {},
        {"url": endpoint.url, "events": ["message.sent"], "enabled": True},
    ):
        assert patch(api, endpoint, body).json() == before

    assert not AuditRow.objects.filter(action="webhook.update").exists()


@pytest.mark.parametrize(
    ("body", "paths"),
    [
        ({"url": None}, ["url"]),
        ({"url": "ftp://127.0.0.1/"}, ["url"]),
        ({"events": None}, ["events"]),
        ({"events": ["message.*"]}, ["events[0]"]),
        ({"identity_ids": [new_id("idn")]}, ["identity_ids[0]"]),
        ({"enabled": None}, ["enabled"]),
        ({"enabled": "yes"}, ["enabled"]),
        ({"scope": "platform"}, ["scope"]),
        ({"disabled_reason": None}, ["disabled_reason"]),
    ],
)
def test_a_malformed_change_is_refused_with_its_path(
    api: ApiClient, endpoint: WebhookEndpoint, body: Any, paths: list[str]
) -> None:
    before = WebhookEndpoint.objects.values().get()

    answer = patch(api, endpoint, {"description": "x", **body})

    assert (answer.status_code, paths_of(answer)) == (400, paths)
    assert WebhookEndpoint.objects.values().get() == before


def test_identities_of_a_tenants_endpoint_are_its_tenants_even_to_the_platform(
    platform_api: ApiClient, endpoint: WebhookEndpoint
) -> None:
    foreign = IdentityFactory.create().id
    platforms = WebhookEndpointFactory.create(tenant=None)

    refused = patch(platform_api, endpoint, {"identity_ids": [foreign]})

    assert paths_of(refused) == ["identity_ids[0]"]
    assert (
        patch(platform_api, platforms, {"identity_ids": [foreign]}).status_code == 200
    )


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"url": NEW_URL}, 403),
        ({"url": NEW_URL, "events": ["identity.paused", "message.sent"]}, 403),
        ({"events": ["*"]}, 403),
        ({"events": ["message.bounced"]}, 403),
        ({"events": ["identity.paused"]}, 200),
        ({"events": ["identity.paused"], "url": NEW_URL}, 200),
        ({"description": "x", "enabled": False, "identity_ids": None}, 200),
        ({"events": ["message.sent"]}, 200),  # as it is
    ],
)
def test_who_may_not_read_mail_points_none_of_it_elsewhere(
    endpoint: WebhookEndpoint, body: Mapping[str, Any], status: int
) -> None:
    """J29."""
    key = create_key(
        name="n", tenant=endpoint.tenant, permissions=[Scope.WEBHOOKS_MANAGE]
    )

    answer = patch(ApiClient(key.secret, ""), endpoint, body)

    assert answer.status_code == status
    if status == 403:
        assert code_of(answer) == "permission_denied"
        endpoint.refresh_from_db()
        assert (endpoint.url != NEW_URL, endpoint.events) == (True, ["message.sent"])


# --- off and on


@pytest.mark.parametrize("reason", [None, R.MANUAL, R.FAILING, R.GONE, R.URL_CHANGED])
def test_another_url_is_off_until_it_is_tested(
    api: ApiClient, endpoint: WebhookEndpoint, reason: R | None
) -> None:
    if reason is not None:
        turn_off(endpoint, reason)

    changed = patch(api, endpoint, {"url": NEW_URL}).json()

    assert changed["url"] == NEW_URL
    assert (changed["enabled"], changed["disabled_reason"]) == (False, "url_changed")
    assert state(endpoint) == (R.URL_CHANGED, 0, None)  # failures were the old one's
    for body in ({"enabled": True}, {"enabled": True, "description": "x"}):
        refused = patch(api, endpoint, body)
        assert (refused.status_code, paths_of(refused)) == (400, ["enabled"])
        assert refused.json()["error"]["details"]["reason"] == "url_changed"
    assert state(endpoint)[0] == R.URL_CHANGED
    assert endpoint.description == ""


def test_a_new_url_is_not_on_by_the_same_call(
    api: ApiClient, endpoint: WebhookEndpoint
) -> None:
    refused = patch(api, endpoint, {"url": NEW_URL, "enabled": True})

    assert paths_of(refused) == ["enabled"]
    assert state(endpoint) == (None, 0, None)
    assert endpoint.url != NEW_URL
    both = patch(api, endpoint, {"url": NEW_URL, "enabled": False})
    assert both.json()["disabled_reason"] == "url_changed"


def test_the_url_that_it_has_is_no_change(
    api: ApiClient, endpoint: WebhookEndpoint
) -> None:
    same = patch(api, endpoint, {"url": endpoint.url, "description": "x"}).json()

    assert (same["enabled"], same["description"]) == (True, "x")


@pytest.mark.parametrize("reason", [R.MANUAL, R.FAILING, R.GONE])
def test_turned_on_it_counts_failures_anew(
    api: ApiClient, endpoint: WebhookEndpoint, reason: R
) -> None:
    turn_off(endpoint, reason)
    for name in ("webhook_failing", "webhook_disabled"):
        raise_alert(name, subject=endpoint.id)

    shown = patch(api, endpoint, {"enabled": True}).json()

    assert (shown["enabled"], shown["disabled_reason"]) == (True, None)
    assert state(endpoint) == (None, 0, None)
    assert not Alert.objects.filter(resolved_at=None).exists()
    row = AuditRow.objects.get(action="webhook.update")
    assert row.details == {"fields": ["enabled"], "disabled_reason": None}


def test_one_that_is_on_is_turned_on_to_forget_its_failures(
    api: ApiClient, endpoint: WebhookEndpoint
) -> None:
    now = database_now()
    WebhookEndpoint.objects.update(failures=9, failing_since=now)

    assert patch(api, endpoint, {"enabled": True}).status_code == 200

    assert state(endpoint) == (None, 0, None)


def test_turned_off_by_hand_it_raises_no_event(
    api: ApiClient, endpoint: WebhookEndpoint
) -> None:
    shown = patch(api, endpoint, {"enabled": False}).json()

    assert (shown["enabled"], shown["disabled_reason"]) == (False, "manual")
    assert not Event.objects.filter(type="webhook.disabled").exists()
    assert patch(api, endpoint, {"enabled": True}).json()["enabled"] is True


@pytest.mark.parametrize("reason", list(R))
def test_who_turns_off_what_is_off_leaves_the_first_reason(
    api: ApiClient, endpoint: WebhookEndpoint, reason: R
) -> None:
    turn_off(endpoint, reason)

    assert patch(api, endpoint, {"enabled": False}).json()["disabled_reason"] == reason

    assert not AuditRow.objects.filter(action="webhook.update").exists()
