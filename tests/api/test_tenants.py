"""Tenants over HTTP: made, read, listed, changed, suspended and resumed."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from core import clock
from core.ids import new_id
from mailboxes.key_services import create_key
from mailboxes.models import AuditRow, Event, Identity, Tenant
from mailboxes.policy import effective_policy
from mailboxes.provisioning import ensure_tenant
from mailboxes.scopes import Scope
from mailboxes.services import pause_identity
from mailboxes.statuses import TenantMode
from quota.models import Allowance, QuotaAccount
from quota.statuses import Feature
from tests.factories import AddressFactory, IdentityFactory, TenantFactory
from tests.support.api import ApiClient, booking, code_of, paths_of

pytestmark = pytest.mark.django_db

TENANTS = "/v1/tenants"


def path_of(tenant: Tenant) -> str:
    return f"{TENANTS}/{tenant.id}"


def statuses_of(tenant: Tenant) -> dict[str, tuple[str, str | None]]:
    found = Identity.objects.filter(tenant=tenant)
    return {i.username: (i.status, i.pause_reason) for i in found}


def told(tenant: Tenant, event: str) -> list[dict[str, Any]]:
    rows = Event.objects.filter(tenant=tenant, type=event).order_by("owner_id")
    return [row.payload["data"] for row in rows]


def test_a_tenant_is_made_with_its_quota_account_and_a_trace(
    platform_api: ApiClient,
) -> None:
    asked = {"slug": "acme", "name": "Acme", "mode": "test", "timezone": "Asia/Tokyo"}

    answer = platform_api.post(TENANTS, asked)

    assert answer.status_code == 201
    made = answer.json()
    assert {name: made[name] for name in asked} == asked
    assert made["address_suffix"] == ".acme"
    assert made["status"] == "active"
    assert made["policy"] == effective_policy()
    assert made["next_timezone"] is None
    assert QuotaAccount.objects.filter(tenant_id=made["id"]).exists()
    allowances = Allowance.objects.filter(tenant_id=made["id"])
    assert set(allowances.values_list("feature", "granted")) == {
        (feature, None) for feature in Feature.values
    }
    row = AuditRow.objects.get(action="tenant.create")
    assert row.tenant_id == row.target_id == made["id"]
    assert row.actor_key_id
    assert row.request_id == answer.headers["Request-Id"]
    assert platform_api.get(f"{TENANTS}/{made['id']}").json() == made


def test_the_same_call_under_its_key_makes_one_tenant(platform_api: ApiClient) -> None:
    asked = {"slug": "acme", "mode": "live"}

    first = platform_api.post(TENANTS, asked, key="k1").json()

    assert platform_api.post(TENANTS, asked, key="k1").json() == first
    assert first["name"] == "acme"
    assert Tenant.objects.count() == 1


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"slug": "acme"}, "slug_taken"),
        ({"address_suffix": ".acme"}, "suffix_taken"),
        ({"slug": "acrne"}, "suffix_taken"),  # looks like acme
        ({"address_suffix": ""}, "suffix_taken"),
    ],
)
def test_a_name_that_is_taken_or_looks_like_one_is_refused(
    platform_api: ApiClient, change: dict[str, str], code: str
) -> None:
    platform_api.post(TENANTS, {"slug": "acme", "mode": "live"})
    empty = {"slug": "main", "mode": "live", "address_suffix": ""}
    assert platform_api.post(TENANTS, empty).json()["address_suffix"] == ""

    answer = platform_api.post(TENANTS, {"slug": "other", "mode": "live", **change})

    assert (answer.status_code, code_of(answer)) == (409, code)
    assert Tenant.objects.count() == QuotaAccount.objects.count() == 2


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"slug": "A"}, "slug"),
        ({"slug": "acme\n"}, "slug"),
        ({"slug": None}, "slug"),
        ({"mode": "sandbox"}, "mode"),
        ({"mode": None}, "mode"),
        ({"name": ""}, "name"),
        ({"name": "a\nb"}, "name"),
        ({"name": None}, "name"),
        ({"name": "x" * 201}, "name"),
        ({"address_suffix": "acme"}, "address_suffix"),
        ({"address_suffix": ".Acme"}, "address_suffix"),
        ({"timezone": "Mars/Olympus"}, "timezone"),
        ({"timezone": "../../etc/passwd"}, "timezone"),
        ({"timezone": ""}, "timezone"),
        ({"status": "suspended"}, "status"),
    ],
)
def test_a_wrong_field_is_named_and_nothing_is_made(
    platform_api: ApiClient, change: dict[str, Any], path: str
) -> None:
    answer = platform_api.post(TENANTS, {"slug": "acme", "mode": "live", **change})

    assert (answer.status_code, paths_of(answer)) == (400, [path])
    assert not Tenant.objects.exists()


def test_provision_finds_the_tenant_that_the_api_made(platform_api: ApiClient) -> None:
    made = platform_api.post(TENANTS, {"slug": "acme", "mode": "live"}).json()

    assert ensure_tenant("acme", mode=TenantMode.LIVE).id == made["id"]


def test_tenants_are_listed_newest_first_and_by_status_and_mode(
    platform_api: ApiClient,
) -> None:
    for slug, mode in (("aa", "live"), ("bb", "test"), ("cc", "live")):
        platform_api.post(TENANTS, {"slug": slug, "mode": mode})
    first = Tenant.objects.get(slug="aa")
    platform_api.patch(path_of(first), {"status": "suspended"})

    def slugs(query: str) -> list[str]:
        page = platform_api.get(f"{TENANTS}?{query}").json()
        return [row["slug"] for row in page["data"]]

    assert slugs("") == ["cc", "bb", "aa"]
    assert slugs("mode=live") == ["cc", "aa"]
    assert slugs("mode=live&status=active") == ["cc"]
    assert slugs("status=suspended") == ["aa"]
    page = platform_api.get(f"{TENANTS}?limit=2").json()
    assert slugs(f"limit=2&cursor={page['next_cursor']}") == ["aa"]
    assert paths_of(platform_api.get(f"{TENANTS}?status=erased")) == ["status"]


def test_a_list_of_many_takes_as_many_statements_as_one_of_one(
    platform_api: ApiClient,
) -> None:
    def statements() -> int:
        with CaptureQueriesContext(connection) as seen:
            assert platform_api.get(TENANTS).status_code == 200
        return len(seen)

    TenantFactory.create()
    statements()
    with_one = statements()
    TenantFactory.create_batch(9)

    assert statements() == with_one == 3  # the key, the page, the clock


def test_a_tenant_key_reads_its_own_tenant_and_no_other(
    api: ApiClient, identity: Identity
) -> None:
    weak = create_key(
        name="w", tenant=identity.tenant, permissions=[Scope.MESSAGES_READ]
    )
    client = ApiClient(weak.secret, "")

    assert client.get(path_of(identity.tenant)).json()["id"] == identity.tenant_id
    answers = [
        client.get(f"{TENANTS}/{tenant_id}")
        for tenant_id in (TenantFactory.create().id, new_id("ten"), "ten_%00", "x")
    ]
    assert {(a.status_code, code_of(a)) for a in answers} == {(404, "tenant_not_found")}
    bodies = {a.content.replace(a.headers["Request-Id"].encode(), b"") for a in answers}
    assert len(bodies) == 1


@pytest.mark.parametrize("method", ["post", "get", "patch"])
def test_only_the_platform_makes_lists_and_changes_tenants(
    api: ApiClient, identity: Identity, method: str
) -> None:
    path = path_of(identity.tenant) if method == "patch" else TENANTS
    body = [] if method == "get" else [{"status": "suspended"}]

    answer = getattr(api, method)(path, *body)

    assert (answer.status_code, code_of(answer)) == (403, "permission_denied")
    assert Tenant.objects.get(id=identity.tenant_id).status == "active"


def test_an_identity_key_reads_no_tenant(identity: Identity) -> None:
    key = create_key(name="i", identity=identity)

    answer = ApiClient(key.secret, "").get(path_of(identity.tenant))

    assert (answer.status_code, code_of(answer)) == (403, "permission_denied")


def test_a_patch_changes_what_it_names(platform_api: ApiClient) -> None:
    tenant = TenantFactory.create(name="Before", timezone="Asia/Tokyo")

    answer = platform_api.patch(
        path_of(tenant),
        {"name": "After", "policy": {"abuse": {"bounce_rate_pause": 0.01}}},
    )

    changed = answer.json()
    assert answer.status_code == 200
    assert (changed["name"], changed["timezone"]) == ("After", "Asia/Tokyo")
    assert changed["policy"]["abuse"]["bounce_rate_pause"] == 0.01
    assert changed["updated_at"] > changed["created_at"]
    actions = AuditRow.objects.filter(tenant=tenant).values_list("action", "details")
    assert dict(actions) == {
        "tenant.update": {"fields": ["name"]},
        "tenant.policy_update": {
            "fields": ["abuse.bounce_rate_pause"],
            "policy_version": 1,
        },
    }


def test_a_patch_that_changes_nothing_leaves_no_trace(platform_api: ApiClient) -> None:
    tenant = TenantFactory.create()

    bodies: list[dict[str, Any]] = [
        {},
        {"name": tenant.name, "timezone": "UTC", "status": "active"},
        {"policy": {}},
    ]
    for body in bodies:
        assert platform_api.patch(path_of(tenant), body).status_code == 200

    assert not AuditRow.objects.exists()
    assert not Event.objects.exists()


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"slug": "other"}, "slug"),
        ({"mode": "test"}, "mode"),
        ({"address_suffix": ".x1"}, "address_suffix"),
        ({"name": None}, "name"),
        ({"status": "erased"}, "status"),
        ({"status": None}, "status"),
        ({"timezone": "Nowhere"}, "timezone"),
        ({"policy": None}, "policy"),
        (
            {"policy": {"abuse": {"bounce_rate_pause": 2}}},
            "policy.abuse.bounce_rate_pause",
        ),
        ({"policy": {"no_such": 1}}, "policy.no_such"),
    ],
)
def test_a_wrong_change_is_named_and_nothing_of_it_counts(
    platform_api: ApiClient, body: dict[str, Any], path: str
) -> None:
    tenant = TenantFactory.create(name="Before")

    answer = platform_api.patch(path_of(tenant), {"name": "After", **body})

    assert (answer.status_code, paths_of(answer)) == (400, [path])
    assert Tenant.objects.get(id=tenant.id).name == "Before"


def test_a_missing_tenant_is_missing_whatever_the_body(platform_api: ApiClient) -> None:
    answer = platform_api.patch(f"{TENANTS}/{new_id('ten')}", {"x": 1})

    assert (answer.status_code, code_of(answer)) == (404, "tenant_not_found")


def test_a_zone_changes_at_the_next_midnight_of_the_zone_before(
    platform_api: ApiClient,
) -> None:
    tenant = TenantFactory.create()

    changed = platform_api.patch(path_of(tenant), {"timezone": "Asia/Tokyo"}).json()

    assert changed["timezone"] == "UTC"
    assert changed["next_timezone"]["timezone"] == "Asia/Tokyo"
    assert changed["next_timezone"]["at"].endswith("T00:00:00.000Z")
    clock.offset += timedelta(days=1)
    later = platform_api.get(path_of(tenant)).json()
    assert (later["timezone"], later["next_timezone"]) == ("Asia/Tokyo", None)


def test_a_suspension_pauses_what_is_active_and_resuming_undoes_only_that(
    platform_api: ApiClient,
) -> None:
    tenant = TenantFactory.create()
    for name in ("one", "two"):
        IdentityFactory.create(tenant=tenant, username=name)
    by_hand = IdentityFactory.create(tenant=tenant, username="by-hand")
    IdentityFactory.create(tenant=tenant, username="gone", status="deleting")
    pause_identity(by_hand.id)
    other = IdentityFactory.create()

    answer = platform_api.patch(path_of(tenant), {"status": "suspended"})

    assert answer.json()["status"] == "suspended"
    assert Tenant.objects.get(id=tenant.id).suspended_at is not None
    stopped = ("paused", "tenant_suspended")
    assert statuses_of(tenant) == {
        "one": stopped,
        "two": stopped,
        "by-hand": ("paused", "manual"),
        "gone": ("deleting", None),
    }
    assert statuses_of(other.tenant)[other.username] == ("active", None)
    reasons = [data["reason"] for data in told(tenant, "identity.paused")]
    assert sorted(reasons) == ["manual", "tenant_suspended", "tenant_suspended"]

    answer = platform_api.patch(path_of(tenant), {"status": "active"})

    assert answer.json()["status"] == "active"
    assert Tenant.objects.get(id=tenant.id).suspended_at is None
    assert statuses_of(tenant) == {
        "one": ("active", None),
        "two": ("active", None),
        "by-hand": ("paused", "manual"),
        "gone": ("deleting", None),
    }
    resumed = Identity.objects.filter(tenant=tenant, username__in=("one", "two"))
    assert told(tenant, "identity.resumed") == [
        {"identity_id": one.id} for one in resumed.order_by("id")
    ]
    details = AuditRow.objects.filter(tenant=tenant, target_type="tenant")
    assert dict(details.values_list("action", "details")) == {
        "tenant.suspend": {"identities_paused": 2},
        "tenant.resume": {"identities_resumed": 2},
    }


def test_suspending_again_and_resuming_again_change_nothing(
    platform_api: ApiClient,
) -> None:
    tenant = IdentityFactory.create().tenant

    for status in ("suspended", "suspended", "active", "active"):
        answer = platform_api.patch(path_of(tenant), {"status": status})
        assert answer.json()["status"] == status

    assert AuditRow.objects.filter(tenant=tenant).count() == 2
    assert Event.objects.filter(tenant=tenant).count() == 2
    sequences = Event.objects.filter(tenant=tenant).order_by("seq")
    assert [row.payload["sequence"] for row in sequences] == [1, 2]


def test_a_suspended_tenant_reads_and_does_not_send(
    platform_api: ApiClient, api: ApiClient, identity: Identity
) -> None:
    platform_api.patch(path_of(identity.tenant), {"status": "suspended"})

    refused = api.send(booking())

    assert (refused.status_code, code_of(refused)) == (403, "tenant_suspended")
    assert api.get(path_of(identity.tenant)).json()["status"] == "suspended"
    platform_api.patch(path_of(identity.tenant), {"status": "active"})
    assert api.send(booking()).status_code == 202


def test_suspending_many_identities_takes_as_many_statements_as_one(
    platform_api: ApiClient,
) -> None:
    few, many = IdentityFactory.create().tenant, TenantFactory.create()
    AddressFactory.create_batch(9, identity__tenant=many)

    def statements(tenant: Tenant) -> int:
        with CaptureQueriesContext(connection) as seen:
            platform_api.patch(path_of(tenant), {"status": "suspended"})
        return len(seen)

    platform_api.get(TENANTS)  # notes the use of the key, once a minute
    assert statements(few) == statements(many)
    assert len(told(many, "identity.paused")) == 9
