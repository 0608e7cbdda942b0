"""A tenant's policy over HTTP: its layers, what a tenant may write, what is told."""

from typing import Any

import pytest
from pytest_django import Settings

from core.ids import new_id
from mailboxes import policy_services
from mailboxes.key_services import create_key
from mailboxes.models import AuditRow, Event, Identity, Tenant
from mailboxes.policy import effective_policy
from mailboxes.scopes import Scope
from tests.factories import TenantFactory
from tests.support.api import ApiClient, booking, code_of, paths_of

pytestmark = pytest.mark.django_db


def path_of(tenant: Tenant) -> str:
    return f"/v1/tenants/{tenant.id}/policy"


def details_of(answer: Any) -> dict[str, Any]:
    found: dict[str, Any] = answer.json()["error"]["details"]
    return found


def test_the_policy_is_the_layers_merged_and_says_which_fields_are_own(
    api: ApiClient, identity: Identity, settings: Settings
) -> None:
    settings.PM_DEFAULT_POLICY = {"max_recipients": 20, "link_ttl_hours": 24}
    Tenant.objects.update(
        policy={"link_ttl_hours": 48, "auto_reply": {"allowed": False}}
    )

    answer = api.get(path_of(identity.tenant))

    assert answer.json() == {
        "policy_version": 0,
        "policy": effective_policy(
            {"max_recipients": 20, "link_ttl_hours": 48},
            {"auto_reply": {"allowed": False}},
        ),
        "fields": ["auto_reply.allowed", "link_ttl_hours"],
    }


def test_a_tenant_lowers_and_resets_a_field_and_sends_obey(
    api: ApiClient, identity: Identity
) -> None:
    path = path_of(identity.tenant)
    two = booking(to=["a@example.net", "b@example.net"])

    lowered = api.patch(path, {"policy": {"max_recipients": 1}}).json()

    assert lowered["policy_version"] == 1
    assert lowered["policy"]["max_recipients"] == 1
    assert lowered["fields"] == ["max_recipients"]
    assert code_of(api.send(two)) == "too_many_recipients"
    reset = api.patch(path, {"policy": {"max_recipients": None}}).json()
    assert (reset["policy_version"], reset["fields"]) == (2, [])
    assert api.send(two).status_code == 202


def test_what_was_changed_is_told_without_a_sequence_and_audited(
    api: ApiClient, identity: Identity
) -> None:
    path = path_of(identity.tenant)
    change = {"policy": {"abuse": {"bounce_rate_pause": 0.01}, "max_recipients": 3}}

    api.patch(path, change)
    api.patch(path, change)  # nothing new, nothing told
    api.patch(path, {"policy": {"max_recipients": None}})

    events = Event.objects.filter(type="tenant.policy_updated").order_by("seq")
    key_id = AuditRow.objects.values_list("actor_key_id", flat=True)[0]
    common = {"by": "tenant", "actor_key_id": key_id}
    assert [event.payload["data"] for event in events] == [
        {
            "fields": ["abuse.bounce_rate_pause", "max_recipients"],
            "policy_version": 1,
            **common,
        },
        {"fields": ["max_recipients"], "policy_version": 2, **common},
    ]
    envelope = events[0].payload
    assert envelope["tenant_id"] == identity.tenant_id
    assert envelope["identity_id"] is envelope["sequence"] is None
    assert {(e.owner_kind, e.owner_id) for e in events} == {
        ("platform", identity.tenant_id)
    }
    rows = AuditRow.objects.filter(action="tenant.policy_update")
    assert [row.details for row in rows.order_by("id")] == [
        {"fields": e.payload["data"]["fields"], "policy_version": n + 1}
        for n, e in enumerate(events)
    ]


def test_a_tenant_is_told_the_field_and_its_ceiling(
    api: ApiClient, platform_api: ApiClient, identity: Identity
) -> None:
    path = path_of(identity.tenant)
    platform_api.patch(path, {"policy": {"identity_daily_send_cap": 100}})

    answer = api.patch(
        path, {"policy": {"identity_daily_send_cap": 101, "domain_fallback": False}}
    )

    assert (answer.status_code, code_of(answer)) == (403, "scope_denied")
    assert details_of(answer) == {
        "field": "identity_daily_send_cap",
        "reason": "above_ceiling",
        "ceiling": 100,
    }
    assert answer.json()["error"]["fix"]
    stored = Tenant.objects.get(id=identity.tenant_id)
    assert stored.policy == {"identity_daily_send_cap": 100}
    assert stored.policy_version == 1


def test_the_platform_raises_what_a_tenant_may_not(
    platform_api: ApiClient, api: ApiClient, identity: Identity
) -> None:
    path = path_of(identity.tenant)

    raised = platform_api.patch(path, {"policy": {"max_recipients": 49}})

    assert raised.json()["policy"]["max_recipients"] == 49
    assert Event.objects.get().payload["data"]["by"] == "platform"
    refused = api.patch(path, {"policy": {"max_recipients": 48}})
    assert details_of(refused)["ceiling"] == 10


@pytest.mark.parametrize(
    ("policy", "path"),
    [
        ({"abuse": {"bounce_rate_pause": "0.1"}}, "policy.abuse.bounce_rate_pause"),
        ({"abuse": {"bounce_rate_pause": -0.1}}, "policy.abuse.bounce_rate_pause"),
        ({"abuse": 1}, "policy.abuse"),
        ({"max_recipients": 50}, "policy.max_recipients"),
        ({"max_recipients": 1.5}, "policy.max_recipients"),
        ({"max_recipients": True}, "policy.max_recipients"),
        ({"send_allowlist_only": "yes"}, "policy.send_allowlist_only"),
        ({"large_attachments": "keep"}, "policy.large_attachments"),
        ({"ai_disclosure": {"text": ""}}, "policy.ai_disclosure.text"),
        ({"tenant_daily_send_cap": 2**63}, "policy.tenant_daily_send_cap"),
        ({"retention": {"events_days": 0}}, "policy.retention.events_days"),
        ({"quarantine": {}}, "policy.quarantine"),
        (None, "policy"),
    ],
)
def test_a_wrong_value_is_refused_at_its_path(
    platform_api: ApiClient, policy: Any, path: str
) -> None:
    tenant = TenantFactory.create()

    answer = platform_api.patch(path_of(tenant), {"policy": policy})

    assert (answer.status_code, paths_of(answer)) == (400, [path])
    assert Tenant.objects.get(id=tenant.id).policy_version == 0


@pytest.mark.parametrize("body", [{}, {"max_recipients": 5}])
def test_a_change_comes_under_the_name_policy(
    platform_api: ApiClient, body: dict[str, Any]
) -> None:
    answer = platform_api.patch(path_of(TenantFactory.create()), body)

    assert "policy" in paths_of(answer)


def test_another_tenants_policy_is_not_there(api: ApiClient) -> None:
    foreign, missing = TenantFactory.create().id, new_id("ten")

    for method, more in (("get", []), ("patch", [{"policy": {"max_recipients": 1}}])):
        answers = [
            getattr(api, method)(f"/v1/tenants/{tenant_id}/policy", *more)
            for tenant_id in (foreign, missing)
        ]
        bodies = {
            a.content.replace(a.headers["Request-Id"].encode(), b"") for a in answers
        }
        assert [a.status_code for a in answers] == [404, 404]
        assert code_of(answers[0]) == "tenant_not_found"
        assert len(bodies) == 1


def test_reading_a_policy_needs_its_scope(identity: Identity) -> None:
    key = create_key(
        name="w", tenant=identity.tenant, permissions=[Scope.MESSAGES_READ]
    )

    answer = ApiClient(key.secret, "").get(path_of(identity.tenant))

    assert (answer.status_code, details_of(answer)["required"]) == (
        403,
        ["policy:write"],
    )


def test_who_is_forestalled_three_times_is_told_to_repeat(
    api: ApiClient, identity: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = []

    def forestalled(*args: Any) -> bool:
        tries.append(args)
        return False

    monkeypatch.setattr(policy_services, "_store", forestalled)
    answer = api.patch(path_of(identity.tenant), {"policy": {"max_recipients": 1}})

    assert (answer.status_code, code_of(answer)) == (503, "unavailable")
    assert details_of(answer)["reason"] == "policy_contended"
    assert len(tries) == 3
