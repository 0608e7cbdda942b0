"""Usage over HTTP: how the plan stands, what was used, and the last inbox of a plan."""

from datetime import date, timedelta
from typing import Any

import pytest

from core import clock
from core.clock import database_now
from core.ids import new_id
from mailboxes.key_services import create_key
from mailboxes.models import AuditRow, Event, Identity, Tenant
from mailboxes.scopes import Scope
from mailboxes.services import render_instant
from quota import services
from quota.billing_services import BillingChange, change_billing
from quota.catalogue import BUILT_IN
from quota.models import Allowance, Hold, QuotaAccount, UsageDay
from quota.periods import month_after
from quota.statuses import BillingMode
from tests.factories import TenantFactory
from tests.support.api import ApiClient, code_of, paths_of

pytestmark = pytest.mark.django_db

USAGE, DAILY = "/v1/usage", "/v1/usage/daily"


@pytest.fixture
def metered(settings: Any, identity: Identity) -> Tenant:
    """The identity's tenant, on the free plan."""
    settings.PM_BILLING = "stripe"
    tenant = identity.tenant
    change_billing(tenant.id, BillingChange(BillingMode.METERED), actor_key_id=None)
    start = database_now()
    QuotaAccount.objects.update(period_start=start, period_end=month_after(start))
    return tenant


def shown(client: ApiClient, query: str = "") -> dict[str, dict[str, Any]]:
    """Return how each feature stands."""
    response = client.get(f"{USAGE}{query}")
    assert response.status_code == 200, response.content
    return {one.pop("feature"): one for one in response.json()["features"]}


# --- how the plan stands -------------------------------------------------------------


def test_usage_says_of_each_feature_what_is_granted_used_and_left(
    api: ApiClient, metered: Tenant
) -> None:
    now = database_now()
    services.settle(metered.id, ref="msg_a", consume=990)
    services.reserve(metered.id, ref=new_id("msg"), units=6, now=now)
    Allowance.objects.filter(feature="storage_gb").update(used=3)

    response = api.get(USAGE)

    assert response.json()["billing"] == "metered"
    names = [one["feature"] for one in response.json()["features"]]
    assert names == ["inboxes", "sends", "custom_domains", "storage_gb"]
    ends = QuotaAccount.objects.get(tenant=metered).period_end
    limited = {"unlimited": False, "resets_at": None}
    assert shown(api) == {
        "inboxes": {**limited, "granted": 5, "used": 0, "remaining": 5},
        "sends": {
            "granted": 1000,
            "used": 990,
            "remaining": 4,
            "unlimited": False,
            "resets_at": render_instant(ends),
        },
        "custom_domains": {**limited, "granted": 0, "used": 0, "remaining": 0},
        "storage_gb": {**limited, "granted": 1, "used": 3, "remaining": 0},
    }


@pytest.mark.parametrize(
    ("is_on", "mode"),
    [("stripe", "exempt"), ("stripe", "disabled"), ("off", "metered")],
)
def test_without_a_plan_nothing_is_limited_and_all_is_counted(
    api: ApiClient, metered: Tenant, settings: Any, is_on: str, mode: str
) -> None:
    wanted = BillingChange(BillingMode(mode))
    change_billing(metered.id, wanted, actor_key_id=None)
    services.settle(metered.id, ref="msg_a", consume=7)
    settings.PM_BILLING = is_on

    assert api.get(USAGE).json()["billing"] == (mode if is_on != "off" else "disabled")
    found = shown(api)
    assert {(one["granted"], one["remaining"]) for one in found.values()} == {
        (None, None)
    }
    assert all(one["unlimited"] for one in found.values())
    assert found["sends"]["used"] == 7


def test_a_period_that_is_over_is_shown_as_over_before_anybody_has_ended_it(
    api: ApiClient, metered: Tenant
) -> None:
    services.settle(metered.id, ref="msg_a", consume=7)
    Allowance.objects.filter(feature="inboxes").update(used=2)
    ends = QuotaAccount.objects.get(tenant=metered).period_end
    clock.offset += ends - database_now()

    found = shown(api)

    assert (found["sends"]["used"], found["sends"]["remaining"]) == (0, 1000)
    assert found["sends"]["resets_at"] == render_instant(month_after(ends))
    assert found["inboxes"]["used"] == 2


def test_another_catalogue_is_shown_before_it_has_granted(
    api: ApiClient, metered: Tenant, settings: Any
) -> None:
    plans = BUILT_IN.model_copy(
        update={"plans": (BUILT_IN.plans[1].model_copy(update={"plan_id": "free"}),)}
    )
    settings.PM_PLAN_CATALOG = plans.model_dump_json().replace(
        '"price":1000', '"price":0'
    )
    assert shown(api)["sends"]["granted"] == 10_000

    settings.PM_PLAN_CATALOG = settings.PM_PLAN_CATALOG.replace('"free"', '"other"')
    assert shown(api)["sends"]["granted"] == 1000  # the plan is gone: what it did


# --- whose ---------------------------------------------------------------------------


def test_every_level_reads_the_usage_of_its_own_tenant(
    platform_api: ApiClient, identity: Identity, metered: Tenant
) -> None:
    Allowance.objects.filter(feature="sends").update(used=3)
    keys = [{"tenant": metered}, {"identity": identity}]
    own = [ApiClient(create_key(name="k", **one).secret, "") for one in keys]  # type: ignore[arg-type]  # either

    for client, query in (
        (own[0], ""),
        (own[1], ""),
        (own[0], f"?tenant_id={metered.id}"),
    ):
        assert shown(client, query)["sends"]["used"] == 3
    assert shown(platform_api, f"?tenant_id={metered.id}")["sends"]["used"] == 3


def test_days_are_not_for_an_identitys_key(identity: Identity) -> None:
    client = ApiClient(create_key(name="k", identity=identity).secret, identity.id)

    response = client.get(DAILY)

    assert (response.status_code, code_of(response)) == (403, "scope_denied")


@pytest.mark.parametrize("path", [USAGE, DAILY])
def test_a_foreign_tenant_is_not_there(
    api: ApiClient, platform_api: ApiClient, path: str
) -> None:
    foreign = TenantFactory.create()
    asked = (foreign.id, new_id("ten"), "ten_x", new_id("idn"))

    answers = [api.get(f"{path}?tenant_id={one}") for one in asked]

    assert {(a.status_code, code_of(a)) for a in answers} == {(404, "tenant_not_found")}
    bodies = set()
    for answer in answers:
        body = answer.json()["error"]
        bodies.add(str({**body, "request_id": ""}))
    assert len(bodies) == 1
    missing = platform_api.get(f"{path}?tenant_id={new_id('ten')}")
    assert missing.status_code == 404
    assert platform_api.get(f"{path}?tenant_id={foreign.id}").status_code == 200


@pytest.mark.parametrize("path", [USAGE, DAILY])
def test_a_platform_key_names_the_tenant_and_needs_the_scope(
    platform_api: ApiClient, path: str, identity: Identity
) -> None:
    response = platform_api.get(path)
    assert (response.status_code, paths_of(response)) == (400, ["tenant_id"])

    poor = create_key(name="p", permissions=[Scope.AUDIT_READ]).secret
    response = ApiClient(poor, "").get(f"{path}?tenant_id={identity.tenant_id}")
    assert (response.status_code, code_of(response)) == (403, "permission_denied")


# --- day by day ----------------------------------------------------------------------


def used(tenant: Tenant, day: date, **values: int) -> None:
    for metric, value in values.items():
        UsageDay.objects.create(tenant=tenant, day=day, metric=metric, value=value)


def test_days_are_listed_oldest_first_and_only_the_tenants_own(
    api: ApiClient, identity: Identity
) -> None:
    second, first = date(2026, 11, 3), date(2026, 11, 1)
    used(identity.tenant, second, sends=5, outbound=3, inbound=2, storage_bytes=9)
    used(identity.tenant, first, sends=1)
    used(identity.tenant, date(2026, 10, 31), sends=1)
    used(identity.tenant, date(2026, 11, 4), sends=1)
    used(TenantFactory.create(), second, sends=99)

    response = api.get(f"{DAILY}?from=2026-11-01&to=2026-11-03")

    assert response.json() == {
        "data": [
            {
                "day": "2026-11-01",
                "inbound": 0,
                "outbound": 0,
                "sends": 1,
                "storage_bytes": 0,
            },
            {
                "day": "2026-11-03",
                "inbound": 2,
                "outbound": 3,
                "sends": 5,
                "storage_bytes": 9,
            },
        ]
    }


def test_thirty_days_up_to_today_are_listed_unless_others_are_asked_for(
    api: ApiClient, identity: Identity
) -> None:
    today = database_now().date()
    for ago in (0, 29, 30):
        used(identity.tenant, today - timedelta(days=ago), sends=1)

    def listed(query: str = "") -> list[str]:
        return [day["day"] for day in api.get(f"{DAILY}{query}").json()["data"]]

    last, first, before = (today - timedelta(days=ago) for ago in (0, 29, 30))
    assert listed() == [first.isoformat(), last.isoformat()]
    assert listed(f"?from={before}") == [str(before), str(first), str(last)]
    assert listed(f"?to={before}") == [before.isoformat()]
    assert listed("?to=0001-01-01") == []
    assert listed("?from=2026-01-01&to=2026-04-02") == []  # 92 days


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("from=2026-01-01&to=2026-04-03", "from"),  # 93 days
        ("from=2026-11-02&to=2026-11-01", "from"),
        ("from=9999-12-31", "from"),
        ("from=0001-01-01", "from"),
        ("from=2026-02-29", "from"),
        ("from=2026-11-2", "from"),
        ("from=20261102", "from"),
        ("from=", "from"),
        ("from=2026-W45-1", "from"),
        ("to=2026-11-02T00:00:00Z", "to"),
        ("to=tomorrow", "to"),
        ("to=%D9%A2%D9%A0%D9%A2%D9%A6-11-02", "to"),
        ("to=2026-11-02&to=2026-11-03", "to"),
        ("to=2026-11-02%00", "to"),
        ("first=2026-11-02", "first"),
        ("limit=10", "limit"),
    ],
)
def test_days_that_cannot_be_are_refused_with_their_path(
    api: ApiClient, query: str, path: str
) -> None:
    response = api.get(f"{DAILY}?{query}")

    assert (response.status_code, paths_of(response)) == (400, [path])


# --- the last inbox ------------------------------------------------------------------


def wish(name: str) -> dict[str, str]:
    return {"username": name, "display_name": name}


@pytest.fixture
def path(metered: Tenant) -> str:
    """Where identities are made: the plan has room for one more."""
    Allowance.objects.filter(tenant=metered, feature="inboxes").update(granted=2)
    return f"/v1/tenants/{metered.id}/identities"


@pytest.mark.django_db(transaction=True)
def test_past_the_plan_no_identity_is_made_until_there_is_room(
    api: ApiClient, path: str
) -> None:
    assert api.post(path, wish("a")).status_code == 201
    assert shown(api)["inboxes"]["remaining"] == 0
    tables = (Identity, AuditRow)
    before = [model.objects.count() for model in tables]

    # When one more is asked for, then nothing of it is kept, and one event tells it
    for _ in range(3):
        response = api.post(path, wish("b"), key="k1")
        assert (response.status_code, code_of(response)) == (402, "billing_limit")
        error = response.json()["error"]
        details = {
            "feature": "inboxes",
            "granted": 2,
            "used": 2,
            "resets_at": None,
            "upgrade_url": None,
        }
        assert (error["details"], error["retryable"]) == (details, False)
    assert [model.objects.count() for model in tables] == before
    event = Event.objects.get(type="billing.limit_reached")
    assert {**event.payload["data"], "upgrade_url": None} == details
    assert not Hold.objects.exists()

    # When the plan grants more, then the same key makes one
    Allowance.objects.filter(feature="inboxes").update(granted=3)
    assert api.post(path, wish("b"), key="k1").status_code == 201
    assert api.post(path, wish("b"), key="k1").status_code == 201  # a replay
    assert shown(api)["inboxes"] | {"used": 3, "remaining": 0} == shown(api)["inboxes"]


def test_a_deletion_makes_room_at_once_and_a_pause_does_not(
    api: ApiClient, path: str, identity: Identity
) -> None:
    made = api.post(path, wish("a")).json()["id"]
    own = f"/v1/identities/{made}"

    assert api.patch(own, {"status": "paused"}).status_code == 200
    assert api.post(path, wish("b")).status_code == 402

    assert [api.delete(own).status_code for _ in range(2)] == [202, 200]
    assert Identity.objects.get(id=made).status == "deleting"
    assert shown(api)["inboxes"]["used"] == 1
    assert api.post(path, wish("b")).status_code == 201


def test_what_was_made_for_a_client_id_is_found_again_when_no_room_is_left(
    api: ApiClient, path: str
) -> None:
    body = {**wish("a"), "client_id": "c1"}
    first = api.post(path, body)

    again = api.post(path, body)

    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json()["id"] == first.json()["id"]
    assert shown(api)["inboxes"]["used"] == 2


def test_an_overdrawn_store_keeps_identities_from_being_made(
    api: ApiClient, path: str
) -> None:
    Allowance.objects.filter(feature="storage_gb").update(used=2)

    response = api.post(path, wish("a"))

    assert (response.status_code, code_of(response)) == (402, "billing_limit")
    assert response.json()["error"]["details"]["feature"] == "storage_gb"
