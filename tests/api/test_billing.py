"""Plans over HTTP: shown to all, set by a platform key, felt by the next send."""

from typing import Any

import pytest
from django.test import Client

from core import objects
from core.clock import database_now
from mailboxes.key_services import create_key
from mailboxes.models import Event, Identity, Message
from mailboxes.services import render_instant
from outbound import services
from quota.catalogue import BUILT_IN
from quota.models import Allowance, Counter, Hold, QuotaAccount
from tests.support.api import ApiClient, booking, code_of

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _billing_on(settings: Any) -> None:
    settings.PM_BILLING = "stripe"


@pytest.fixture
def path(identity: Identity) -> str:
    return f"/v1/tenants/{identity.tenant_id}/billing"


@pytest.fixture
def spent(platform_api: ApiClient, path: str) -> None:
    """The identity's tenant has used up its plan."""
    assert platform_api.patch(path, {"mode": "metered"}).status_code == 200
    Allowance.objects.filter(feature="sends").update(used=1000)


def test_the_plans_are_shown_without_a_key() -> None:
    response = Client().get("/v1/plans")

    assert response.status_code == 200
    assert response.json() == BUILT_IN.model_dump(mode="json")


def test_a_platform_key_sees_and_changes_what_a_tenant_is_on(
    platform_api: ApiClient, path: str
) -> None:
    nothing = {"sends": 0, "inboxes": 0}
    found = platform_api.get(path)
    rest = {"period_start": "2000-01-01T00:00:00.000Z", "past_due_since": None}
    assert found.json() == {
        "mode": "exempt",
        "plan_id": "free",
        "topups": nothing,
        **rest,
    }

    wanted = {"mode": "metered", "plan_id": "team", "topups": {"sends": 3}}
    for _ in range(2):
        answer = platform_api.patch(path, wanted)
        assert answer.status_code == 200
        topups = {"sends": 3, "inboxes": 0}
        assert answer.json() == {**wanted, **rest, "topups": topups}
    assert platform_api.patch(path, {"topups": {"inboxes": 1}}).json()["topups"] == {
        "sends": 3,
        "inboxes": 1,
    }
    granted = dict(Allowance.objects.values_list("feature", "granted"))
    assert granted == {
        "sends": 103_000,
        "inboxes": 101,
        "custom_domains": 50,
        "storage_gb": 100,
    }


def test_a_payment_that_is_late_is_set_and_taken_back(
    platform_api: ApiClient, path: str
) -> None:
    since = render_instant(database_now())
    paid = {"plan_id": "team", "period_start": since}

    assert (
        platform_api.patch(path, {**paid, "past_due_since": since}).status_code == 200
    )
    assert platform_api.get(path).json() == {
        **paid,
        "mode": "exempt",
        "topups": {"sends": 0, "inboxes": 0},
        "past_due_since": since,
    }
    answer = platform_api.patch(path, {"past_due_since": None})
    assert answer.json()["past_due_since"] is None


def test_where_billing_is_off_everybody_is_disabled(
    platform_api: ApiClient, path: str, settings: Any
) -> None:
    settings.PM_BILLING = "off"

    assert platform_api.patch(path, {"mode": "metered"}).json()["mode"] == "disabled"

    settings.PM_BILLING = "stripe"
    assert platform_api.get(path).json()["mode"] == "metered"


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({"mode": "free"}, "mode"),
        ({"plan_id": "Team"}, "plan_id"),
        ({"plan_id": "gone"}, "plan_id"),
        ({"topups": {"sends": -1}}, "topups.sends"),
        ({"topups": {"sends": True}}, "topups.sends"),
        ({"topups": {"storage_gb": 1}}, "topups.storage_gb"),
        ({"topups": {"sends": 1}}, "topups"),
        ({"granted": 5}, "granted"),
        ({"plan_id": None}, "plan_id"),
        ({"period_start": None}, "period_start"),
        ({"period_start": "2999-01-01T00:00:00Z"}, "period_start"),
        ({"period_start": "2026-05-04"}, "period_start"),
        ({"past_due_since": "2999-01-01T00:00:00Z"}, "past_due_since"),
        ({"past_due_since": 7}, "past_due_since"),
    ],
)
def test_a_change_that_cannot_be_is_refused_with_its_path(
    platform_api: ApiClient, path: str, body: dict[str, Any], where: str
) -> None:
    before = list(QuotaAccount.objects.values())

    response = platform_api.patch(path, body)

    assert (response.status_code, code_of(response)) == (400, "invalid_request")
    errors = response.json()["error"]["details"]["errors"]
    assert [error["path"] for error in errors] == [where]
    assert list(QuotaAccount.objects.values()) == before


@pytest.mark.parametrize("level", ["tenant", "identity"])
def test_below_the_platform_nobody_sees_or_changes_it(
    identity: Identity, path: str, level: str
) -> None:
    owner: dict[str, Any] = (
        {"tenant": identity.tenant} if level == "tenant" else {"identity": identity}
    )
    caller = ApiClient(create_key(name="k", **owner).secret, identity.id)

    for response in (caller.get(path), caller.patch(path, {"plan_id": "team"})):
        assert response.status_code == 403
    assert QuotaAccount.objects.get().plan_id == "free"


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("spent")
def test_past_the_plan_a_send_is_refused_keeps_nothing_and_is_told_of_once(
    api: ApiClient, platform_api: ApiClient, path: str
) -> None:
    for _ in range(3):
        response = api.send(booking(), key="k1")
        error = response.json()["error"]
        assert (response.status_code, error["code"]) == (402, "billing_limit")
        assert error["retryable"] is False
        assert {"feature": "sends", "granted": 1000, "used": 1000}.items() <= error[
            "details"
        ].items()
    assert not Message.objects.exists()
    assert not Hold.objects.exists()
    assert not Counter.objects.exists()
    event = Event.objects.get(type="billing.limit_reached")
    assert {**event.payload["data"], "upgrade_url": None} == error["details"]
    assert event.payload["sequence"] is None

    # When the plan is raised, then the same key sends, exactly once
    assert platform_api.patch(path, {"plan_id": "team"}).status_code == 200
    assert api.send(booking(), key="k1").status_code == 202
    assert api.send(booking(), key="k1").json()["deduplicated"] is True
    assert Message.objects.count() == 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("spent")
def test_a_spent_plan_is_seen_before_a_byte_is_written(
    api: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    touched: list[str] = []
    monkeypatch.setattr(services, "accept", lambda *a, **k: touched.append("accept"))
    monkeypatch.setattr(objects, "put", lambda *a, **k: touched.append("put"))

    assert api.send(booking()).status_code == 402

    assert touched == []


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("spent")
def test_what_was_accepted_is_answered_again_when_the_plan_is_spent(
    api: ApiClient,
) -> None:
    Allowance.objects.filter(feature="sends").update(used=999)
    assert api.send(booking(), key="k1").status_code == 202
    assert api.send(booking(), key="k2").status_code == 402

    again = api.send(booking(), key="k1")

    assert (again.status_code, again.json()["deduplicated"]) == (202, True)
    assert Hold.objects.count() == 1
