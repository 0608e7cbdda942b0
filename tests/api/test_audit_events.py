"""The audit log over HTTP: whose rows, which rows, in what order."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from core.clock import database_now
from core.ids import new_id
from mailboxes.key_services import create_key
from mailboxes.models import AuditRow, Identity
from mailboxes.services import audit, render_instant
from tests.factories import TenantFactory
from tests.support.api import ApiClient, code_of, paths_of

pytestmark = pytest.mark.django_db

PATH = "/v1/audit-events"


def rows(client: ApiClient, query: str = "") -> list[dict[str, Any]]:
    answer = client.get(f"{PATH}?{query}")
    assert answer.status_code == 200, answer.content
    found: list[dict[str, Any]] = answer.json()["data"]
    return found


def actions(client: ApiClient, query: str = "") -> list[str]:
    return [row["action"] for row in rows(client, query)]


def test_a_row_says_who_did_what_to_what(
    platform_api: ApiClient, api: ApiClient, identity: Identity
) -> None:
    changed = platform_api.patch(
        f"/v1/tenants/{identity.tenant_id}", {"status": "suspended"}
    )

    (row,) = rows(api)

    assert row.pop("id").startswith("aud_")
    assert row.pop("actor_key_id").startswith("key_")
    assert row.pop("created_at").endswith("Z")
    assert row == {
        "tenant_id": identity.tenant_id,
        "action": "tenant.suspend",
        "actor_user_id": None,
        "target_type": "tenant",
        "target_id": identity.tenant_id,
        "details": {"identities_paused": 1},
        "request_id": changed.headers["Request-Id"],
    }


def test_a_tenant_sees_its_own_rows_and_the_platform_all(
    api: ApiClient, platform_api: ApiClient, identity: Identity
) -> None:
    audit("own", tenant_id=identity.tenant_id)
    audit("foreign", tenant_id=TenantFactory.create().id)
    audit("platform", tenant_id=None)

    assert actions(api) == ["own"]
    assert actions(platform_api) == ["platform", "foreign", "own"]
    assert actions(platform_api, f"tenant_id={identity.tenant_id}") == ["own"]
    assert actions(platform_api, f"tenant_id={new_id('ten')}") == []


def test_a_tenant_key_names_no_tenant(api: ApiClient, identity: Identity) -> None:
    for tenant_id in (identity.tenant_id, TenantFactory.create().id, new_id("ten")):
        answer = api.get(f"{PATH}?tenant_id={tenant_id}")

        assert (answer.status_code, code_of(answer)) == (403, "scope_denied")
        assert answer.json()["error"]["details"] == {"field": "tenant_id"}


def test_the_filters_narrow_together(platform_api: ApiClient) -> None:
    audit("a", tenant_id=None, target_id="x", actor_key_id="key_1")
    audit("a", tenant_id=None, target_id="y", actor_key_id="key_2")
    audit("b", tenant_id=None, target_id="x", actor_key_id="key_2")

    def targets(query: str) -> list[tuple[str, str]]:
        return [(row["action"], row["target_id"]) for row in rows(platform_api, query)]

    assert targets("action=a") == [("a", "y"), ("a", "x")]
    assert targets("target_id=x") == [("b", "x"), ("a", "x")]
    assert targets("actor_key_id=key_2") == [("b", "x"), ("a", "y")]
    assert targets("action=a&actor_key_id=key_2&target_id=y") == [("a", "y")]


def test_rows_are_asked_for_by_time(platform_api: ApiClient) -> None:
    for name in ("old", "new"):
        audit(name, tenant_id=None)
    instant = database_now()
    AuditRow.objects.filter(action="old").update(created_at=instant - timedelta(days=1))
    AuditRow.objects.filter(action="new").update(created_at=instant)
    middle = render_instant(instant - timedelta(hours=1))

    assert actions(platform_api, f"after={middle}") == ["new"]
    assert actions(platform_api, f"before={middle}") == ["old"]
    assert actions(platform_api, f"before={render_instant(instant)}") == ["old"]


@pytest.mark.parametrize(
    ("query", "path"),
    [("after=yesterday", "after"), ("action=%00", "action"), ("actor=x", "actor")],
)
def test_a_wrong_parameter_is_named(
    platform_api: ApiClient, query: str, path: str
) -> None:
    answer = platform_api.get(f"{PATH}?{query}")

    assert (answer.status_code, paths_of(answer)) == (400, [path])


def test_pages_follow_each_other_without_a_gap(api: ApiClient) -> None:
    tenant_id = Identity.objects.get().tenant_id
    for n in range(7):
        audit(f"act{n}", tenant_id=tenant_id)

    found, more = [], ""
    for _ in range(3):
        page = api.get(f"{PATH}?limit=3{more}").json()
        found += [row["action"] for row in page["data"]]
        more = f"&cursor={page['next_cursor']}"
    assert page["next_cursor"] is None

    assert found == [f"act{n}" for n in reversed(range(7))]


def test_an_identity_key_reads_no_audit_log(identity: Identity) -> None:
    key = create_key(name="i", identity=identity)

    answer = ApiClient(key.secret, "").get(PATH)

    assert (answer.status_code, code_of(answer)) == (403, "permission_denied")


def test_a_page_of_many_rows_takes_two_statements(platform_api: ApiClient) -> None:
    for _ in range(9):
        audit("act", tenant_id=TenantFactory.create().id)
    rows(platform_api)

    with CaptureQueriesContext(connection) as seen:
        assert len(rows(platform_api)) == 9

    assert len(seen) == 2  # the key and the page
