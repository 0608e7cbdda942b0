"""Identities: made once, found, changed, paused, deleted."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from core.ids import new_id
from domains.statuses import DomainState
from mailboxes.key_services import create_key
from mailboxes.models import Address, AuditRow, Event, Identity, Tenant
from mailboxes.scopes import Scope
from mailboxes.statuses import AddressStatus, PauseReason
from mailboxes.tenant_services import suspend_tenant
from tests.factories import AddressFactory, DomainFactory, TenantFactory
from tests.support.api import ApiClient, booking, code_of, paths_of

pytestmark = pytest.mark.django_db

DESK = {"username": "Desk", "display_name": "Acme Desk"}


@pytest.fixture
def tenant(db: None) -> Tenant:
    return TenantFactory.create(slug="acme")


@pytest.fixture
def client(tenant: Tenant) -> ApiClient:
    return ApiClient(create_key(name="t", tenant=tenant).secret, "")


def path_of(tenant: Tenant) -> str:
    return f"/v1/tenants/{tenant.id}/identities"


def make(client: ApiClient, tenant: Tenant, **changes: Any) -> Any:
    answer = client.post(path_of(tenant), {**DESK, **changes})
    assert answer.status_code == 201, answer.content
    return answer.json()


def events_of(identity_id: str) -> list[str]:
    found = Event.objects.filter(identity_id=identity_id).order_by("seq")
    return list(found.values_list("type", flat=True))


def test_a_new_identity_has_its_platform_address_and_may_be_found(
    client: ApiClient, tenant: Tenant
) -> None:
    made = make(client, tenant, owner={"name": "Ada", "email": "Ada@Example.com"})

    assert made["username"] == "desk"
    assert made["primary_address"] == "desk.acme@agents.test"
    assert [(a["role"], a["status"]) for a in made["addresses"]] == [
        ("primary", "active")
    ]
    assert made["owner"] == {"name": "Ada", "email": "ada@example.com"}
    assert (made["status"], made["pause_reason"]) == ("active", None)
    assert made["send_policy"] == {
        "daily_cap": None,
        "auto_reply": "allowed",
        "require_known_recipient": False,
    }
    assert client.get(f"/v1/identities/{made['id']}").json() == made
    assert client.get("/v1/identities").json()["data"] == [made]
    assert client.get(path_of(tenant)).json()["data"] == [made]
    found = client.get("/v1/identities/lookup?address=<DESK.acme@Agents.Test.>")
    assert found.json() == made
    assert events_of(made["id"]) == ["identity.created", "identity.address_added"]
    created = Event.objects.get(type="identity.created")
    assert created.payload["data"] == {"identity": made}
    row = AuditRow.objects.get(action="identity.create")
    assert (row.target_id, row.actor_key_id is None) == (made["id"], False)


def test_on_its_own_domain_an_identity_has_its_primary_address_there(
    client: ApiClient, tenant: Tenant
) -> None:
    domain = DomainFactory.create(tenant=tenant, name="acme.example")

    made = make(client, tenant, domain_id=domain.id)

    assert made["primary_address"] == "desk@acme.example"
    assert {a["address"]: a["role"] for a in made["addresses"]} == {
        "desk.acme@agents.test": "alias",
        "desk@acme.example": "primary",
    }
    sent = ApiClient(client.secret, made["id"]).send(booking())
    assert code_of(sent) == "identity_owner_required"


@pytest.mark.parametrize("state", sorted(set(DomainState) - {"healthy", "degraded"}))
def test_a_domain_that_is_not_ready_makes_no_identity(
    client: ApiClient, tenant: Tenant, state: str
) -> None:
    domain = DomainFactory.create(tenant=tenant, state=state)

    answer = client.post(path_of(tenant), {**DESK, "domain_id": domain.id})

    is_gone = state in ("removing", "removed")
    assert code_of(answer) == ("domain_not_found" if is_gone else "domain_not_ready")
    assert not Identity.objects.exists()


def test_anothers_domain_is_as_one_that_is_missing(
    client: ApiClient, tenant: Tenant
) -> None:
    foreign = DomainFactory.create()

    answers = [
        client.post(path_of(tenant), {**DESK, "domain_id": domain_id})
        for domain_id in (foreign.id, new_id("dom"), "dom_x", "")
    ]

    assert {(a.status_code, code_of(a)) for a in answers} == {(404, "domain_not_found")}


def test_one_client_id_makes_one_identity(client: ApiClient, tenant: Tenant) -> None:
    body = {**DESK, "client_id": "desk-7", "metadata": {"desk": "7"}}
    first = client.post(path_of(tenant), body)
    again = client.post(path_of(tenant), dict(reversed(body.items())))
    other = client.post(path_of(tenant), {**body, "display_name": "Other"})

    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json() == first.json()
    assert (other.status_code, code_of(other)) == (409, "client_id_conflict")
    assert Identity.objects.count() == 1


@pytest.mark.parametrize(
    ("username", "status", "code"),
    [
        ("desk", 409, "username_taken"),
        ("DESK", 409, "username_taken"),
        ("postmaster", 400, "address_reserved"),
        ("d..k", 400, "address_invalid"),
        ("dösk", 400, "address_unsupported"),
        ("x" * 25, 400, "address_invalid"),
    ],
)
def test_a_name_that_cannot_be_had_is_refused(
    client: ApiClient, tenant: Tenant, username: str, status: int, code: str
) -> None:
    make(client, tenant)

    answer = client.post(path_of(tenant), {**DESK, "username": username})

    assert (answer.status_code, code_of(answer)) == (status, code)
    assert status != 400 or paths_of(answer) == ["username"]
    assert Identity.objects.count() == 1


def test_a_name_that_looks_like_anothers_is_taken(
    client: ApiClient, tenant: Tenant
) -> None:
    make(client, tenant, username="modern")

    answer = client.post(path_of(tenant), {**DESK, "username": "rnodern"})

    assert code_of(answer) == "username_taken"


def test_a_name_and_suffix_over_40_characters_are_too_long(
    platform_api: ApiClient,
) -> None:
    tenant = TenantFactory.create(slug="t" * 30)

    answer = platform_api.post(path_of(tenant), {**DESK, "username": "a" * 12})

    assert code_of(answer) == "local_part_too_long"
    assert paths_of(answer) == ["username"]


def test_an_address_that_somebody_has_makes_no_identity(
    client: ApiClient, tenant: Tenant
) -> None:
    domain = DomainFactory.create(tenant=tenant)
    AddressFactory.create(identity__tenant=tenant, domain=domain, local_part="desk")

    answer = client.post(path_of(tenant), {**DESK, "domain_id": domain.id})

    assert (answer.status_code, code_of(answer)) == (409, "address_taken")
    assert Identity.objects.count() == 1


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"display_name": ""}, "display_name"),
        ({"display_name": "x" * 79}, "display_name"),
        ({"display_name": "a\r\nBcc: b@c.de"}, "display_name"),
        ({"owner": {"name": "Ada"}}, "owner.email"),
        ({"owner": {"name": "Ada", "email": "ada"}}, "owner.email"),
        ({"metadata": {"k": 1}}, "metadata.k"),
        ({"metadata": {"k": "x" * 513}}, "metadata"),
        ({"metadata": {str(n): "" for n in range(17)}}, "metadata"),
        ({"send_policy": {"daily_cap": -1}}, "send_policy.daily_cap"),
        ({"send_policy": {"auto_reply": "yes"}}, "send_policy.auto_reply"),
        ({"send_policy": {"x": 1}}, "send_policy.x"),
        ({"signature": {"text": "x" * 16385}}, "signature.text"),
        ({"username": 7}, "username"),
        ({"status": "paused"}, "status"),
        ({"client_id": ""}, "client_id"),
    ],
)
def test_a_malformed_body_is_refused_with_its_path(
    client: ApiClient, tenant: Tenant, changes: dict[str, Any], path: str
) -> None:
    answer = client.post(path_of(tenant), {**DESK, **changes})

    assert answer.status_code == 400
    assert paths_of(answer) == [path]
    assert not Identity.objects.exists()


def test_a_daily_cap_above_the_tenants_needs_a_platform_key(
    client: ApiClient, platform_api: ApiClient, tenant: Tenant
) -> None:
    Tenant.objects.update(policy={"identity_daily_send_cap": 40})
    above = {**DESK, "send_policy": {"daily_cap": 41}}

    refused = client.post(path_of(tenant), above)

    assert (refused.status_code, code_of(refused)) == (403, "scope_denied")
    assert refused.json()["error"]["details"] == {
        "field": "send_policy.daily_cap",
        "reason": "above_ceiling",
        "ceiling": 40,
    }
    made = platform_api.post(path_of(tenant), above).json()
    path = f"/v1/identities/{made['id']}"
    assert made["send_policy"]["daily_cap"] == 41
    patched = client.patch(path, {"send_policy": {"auto_reply": "denied"}})
    assert patched.json()["send_policy"]["daily_cap"] == 41
    assert code_of(client.patch(path, {"send_policy": {"daily_cap": 42}})) == (
        "scope_denied"
    )


def test_an_idempotency_key_replays_what_was_made(
    client: ApiClient, tenant: Tenant
) -> None:
    first = client.post(path_of(tenant), DESK, key="k")
    again = client.post(path_of(tenant), DESK, key="k")

    assert again.json() == first.json()
    assert (again.status_code, again.headers["Idempotent-Replayed"]) == (201, "true")


def test_a_list_is_filtered_and_shows_no_others(
    client: ApiClient, platform_api: ApiClient, tenant: Tenant
) -> None:
    one = make(client, tenant, purpose="travel", client_id="c1")
    two = make(client, tenant, username="other")
    client.patch(f"/v1/identities/{two['id']}", {"status": "paused"})
    foreign = AddressFactory.create().identity
    Identity.objects.filter(id=make(client, tenant, username="sys")["id"]).update(
        is_system=True
    )

    def ids(query: str, by: ApiClient = client) -> list[str]:
        return [i["id"] for i in by.get(f"/v1/identities?{query}").json()["data"]]

    assert ids("") == [two["id"], one["id"]]
    assert ids("status=paused") == [two["id"]]
    assert ids("purpose=travel") == ids("client_id=c1") == [one["id"]]
    assert ids(f"tenant_id={foreign.tenant_id}") == []
    assert ids(f"tenant_id={foreign.tenant_id}", platform_api) == [foreign.id]
    page = client.get("/v1/identities?limit=1").json()
    rest = client.get(f"/v1/identities?limit=1&cursor={page['next_cursor']}").json()
    assert [page["data"][0]["id"], rest["data"][0]["id"]] == [two["id"], one["id"]]
    for wrong in ("status=x", "purpose=%00", "client_id=%00", "tenant_id=%00", "x=1"):
        answer = client.get(f"/v1/identities?{wrong}")
        assert paths_of(answer) == [wrong.partition("=")[0]]


def test_a_list_takes_the_same_statements_for_one_row_and_for_many(
    client: ApiClient, tenant: Tenant
) -> None:
    def cost() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert client.get("/v1/identities").status_code == 200
        return len(captured)

    make(client, tenant)
    client.get("/v1/identities")
    one = cost()
    for n in range(6):
        make(client, tenant, username=f"desk{n}")

    assert cost() == one <= 4


@pytest.mark.parametrize("status", list(AddressStatus))
def test_an_address_is_looked_up_while_it_answers(
    api: ApiClient, identity: Identity, status: AddressStatus
) -> None:
    Address.objects.update(status=status)
    address = Address.objects.get()

    answer = api.get(f"/v1/identities/lookup?address={address.address}")

    answers = status in ("active", "retiring")
    assert answer.status_code == (200 if answers else 404)


def test_a_lookup_finds_nothing_foreign_and_refuses_what_is_no_address(
    client: ApiClient,
) -> None:
    foreign = AddressFactory.create()

    bodies = [
        client.get(f"/v1/identities/lookup?address={address}").json()["error"]
        for address in (foreign.address, "nobody@example.net")
    ]

    assert [b.pop("request_id") != "" for b in bodies] == [True, True]
    assert bodies[0] == bodies[1]
    assert bodies[0]["code"] == "identity_not_found"
    no_address = client.get("/v1/identities/lookup?address=x")
    assert (code_of(no_address), paths_of(no_address)) == (
        "address_invalid",
        ["address"],
    )
    assert paths_of(client.get("/v1/identities/lookup")) == ["address"]


def test_a_patch_changes_what_it_names_and_says_what_changed(
    client: ApiClient, tenant: Tenant
) -> None:
    made = make(client, tenant, purpose="travel", metadata={"a": "1"})
    path = f"/v1/identities/{made['id']}"
    body = {
        "display_name": "Acme Desk",  # as it was
        "purpose": None,
        "metadata": {"b": "2"},
        "signature": {"html": "<p onclick=x>Bye</p><script>no</script>"},
    }

    patched = client.patch(path, body).json()

    assert patched["purpose"] is None
    assert patched["metadata"] == {"b": "2"}
    assert "script" not in patched["signature"]["html"]
    assert "onclick" not in patched["signature"]["html"]
    assert patched["updated_at"] > made["updated_at"]
    told = Event.objects.get(type="identity.updated").payload["data"]
    assert told["changed"] == ["metadata", "purpose", "signature"]
    assert told["identity"] == patched
    assert AuditRow.objects.get(action="identity.update").details == {
        "fields": told["changed"]
    }
    assert client.patch(path, {"display_name": "Acme Desk"}).json() == patched
    assert Event.objects.filter(type="identity.updated").count() == 1


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"username": "x"}, "username"),
        ({"client_id": "x"}, "client_id"),
        ({"domain_id": "x"}, "domain_id"),
        ({"display_name": None}, "display_name"),
        ({"status": None}, "status"),
        ({"status": "deleted"}, "status"),
    ],
)
def test_a_patch_of_what_stays_is_refused_with_its_path(
    api: ApiClient, body: dict[str, Any], path: str
) -> None:
    answer = api.patch(f"/v1/identities/{api.identity_id}", body)

    assert paths_of(answer) == [path]


def test_an_identity_is_paused_and_resumed(api: ApiClient) -> None:
    path = f"/v1/identities/{api.identity_id}"

    paused = [api.patch(path, {"status": "paused"}).json() for _ in range(2)]
    refused = api.send(booking())
    resumed = [api.patch(path, {"status": "active"}).json() for _ in range(2)]

    assert [p["pause_reason"] for p in paused] == ["manual", "manual"]
    assert code_of(refused) == "identity_paused"
    assert [(r["status"], r["pause_reason"]) for r in resumed] == [("active", None)] * 2
    assert events_of(api.identity_id) == ["identity.paused", "identity.resumed"]
    told = Event.objects.get(type="identity.paused").payload["data"]
    assert told == {"identity_id": api.identity_id, "reason": "manual"}
    actions = AuditRow.objects.values_list("action", "actor_key_id")
    assert [action for action, _ in actions] == ["identity.pause", "identity.resume"]
    assert all(key for _, key in actions)


def test_a_pause_for_abuse_is_lifted_by_a_tenants_key_not_by_its_own(
    api: ApiClient, identity: Identity
) -> None:
    Identity.objects.update(status="paused", pause_reason=PauseReason.ABUSE_THRESHOLD)
    own = ApiClient(create_key(name="i", identity=identity).secret, identity.id)
    path = f"/v1/identities/{identity.id}"

    refused = own.patch(path, {"status": "active"})
    lifted = api.patch(path, {"status": "active"})

    assert (refused.status_code, code_of(refused)) == (403, "scope_denied")
    assert refused.json()["error"]["details"]["field"] == "status"
    assert lifted.json()["status"] == "active"
    assert AuditRow.objects.get(action="identity.resume").details == {
        "reason": "abuse_threshold"
    }


def test_a_pause_with_the_tenant_is_lifted_with_it_alone(
    api: ApiClient, platform_api: ApiClient, identity: Identity
) -> None:
    suspend_tenant(identity.tenant_id)

    for client in (api, platform_api):
        answer = client.patch(f"/v1/identities/{identity.id}", {"status": "active"})
        assert (answer.status_code, code_of(answer)) == (409, "identity_paused")
        assert answer.json()["error"]["details"] == {"reason": "tenant_suspended"}


def test_a_suspended_tenant_has_no_active_identity(
    api: ApiClient, platform_api: ApiClient, identity: Identity
) -> None:
    """One that is made there goes on with the others; a pause by hand stays."""
    tenant = f"/v1/tenants/{identity.tenant_id}"
    path = f"/v1/identities/{identity.id}"
    api.patch(path, {"status": "paused"})
    platform_api.patch(tenant, {"status": "suspended"})

    made = api.post(f"{tenant}/identities", {"username": "new", "display_name": "N"})
    resumed = api.patch(path, {"status": "active"})

    assert made.json()["status"] == "paused"
    assert made.json()["pause_reason"] == "tenant_suspended"
    assert (resumed.status_code, code_of(resumed)) == (409, "identity_paused")
    assert resumed.json()["error"]["details"] == {"reason": "tenant_suspended"}

    platform_api.patch(tenant, {"status": "active"})

    assert api.get(f"/v1/identities/{made.json()['id']}").json()["status"] == "active"
    assert api.get(path).json()["pause_reason"] == "manual"
    assert api.patch(path, {"status": "active"}).json()["status"] == "active"


def test_a_refused_patch_changes_nothing(api: ApiClient, identity: Identity) -> None:
    suspend_tenant(identity.tenant_id)

    api.patch(
        f"/v1/identities/{identity.id}", {"status": "active", "purpose": "travel"}
    )

    assert Identity.objects.get().purpose is None


def test_a_foreign_identity_is_as_one_that_is_missing(client: ApiClient) -> None:
    foreign = AddressFactory.create().identity.id

    def answers(identity_id: str) -> list[Any]:
        path = f"/v1/identities/{identity_id}"
        found = [client.get(path), client.patch(path, {"x": 1}), client.delete(path)]
        bodies = [(a.status_code, a.json()["error"]) for a in found]
        return [(status, {**body, "request_id": ""}) for status, body in bodies]

    assert answers(foreign) == answers(new_id("idn")) == answers("idn_x")
    assert {status for status, _ in answers(foreign)} == {404}


def test_a_foreign_tenant_is_as_one_that_is_missing(client: ApiClient) -> None:
    foreign = TenantFactory.create().id

    def answers(tenant_id: str) -> list[Any]:
        path = f"/v1/tenants/{tenant_id}/identities"
        found = [client.get(path), client.post(path, DESK), client.post(path, {})]
        return [{**a.json()["error"], "request_id": ""} for a in found]

    assert answers(foreign) == answers(new_id("ten"))
    assert {a["code"] for a in answers(foreign)} == {"tenant_not_found"}


def test_an_identitys_key_reaches_only_itself(
    identity: Identity, settings: Settings
) -> None:
    other = AddressFactory.create(identity__tenant=identity.tenant).identity
    own = ApiClient(create_key(name="i", identity=identity).secret, identity.id)

    listed = own.get("/v1/identities").json()["data"]
    in_tenant = own.get(path_of(identity.tenant)).json()["data"]

    assert [i["id"] for i in listed] == [i["id"] for i in in_tenant] == [identity.id]
    assert own.get(f"/v1/identities/{other.id}").status_code == 404
    assert own.patch(f"/v1/identities/{other.id}", {}).status_code == 404
    assert own.delete(f"/v1/identities/{other.id}").status_code == 404
    assert code_of(own.post(path_of(identity.tenant), DESK)) == "scope_denied"


def test_a_deletion_needs_two_scopes(identity: Identity) -> None:
    path = f"/v1/identities/{identity.id}"
    for scopes in ([Scope.IDENTITIES_WRITE], [Scope.ERASURE_MANAGE]):
        key = create_key(name="k", tenant=identity.tenant, permissions=scopes)
        refused = ApiClient(key.secret, "").delete(path)
        assert code_of(refused) == "permission_denied"
        assert refused.json()["error"]["details"]["required"] == [
            "erasure:manage",
            "identities:write",
        ]

    both = [Scope.IDENTITIES_WRITE, Scope.ERASURE_MANAGE]
    key = create_key(name="k", tenant=identity.tenant, permissions=both)
    assert ApiClient(key.secret, "").delete(path).status_code == 202
