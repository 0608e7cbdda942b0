"""API keys: made, shown, listed, rotated and revoked, and never a wider one."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import pytest

from core import clock
from core.clock import database_now
from mailboxes.api.key_schemas import Key, KeyPage, KeyWithSecret
from mailboxes.key_services import create_key
from mailboxes.models import ApiKey, AuditRow, Identity
from mailboxes.scopes import LEVELS, Scope
from mailboxes.services import render_instant
from mailboxes.statuses import KeyLevel, TenantMode
from tests.factories import IdentityFactory, TenantFactory
from tests.support.api import ApiClient, code_of, paths_of

pytestmark = pytest.mark.django_db
S = Scope
NOWHERE = "key_" + "0" * 26


def client(permissions: Iterable[Scope] | None = None, **owner: Any) -> ApiClient:
    return ApiClient(create_key(name="c", permissions=permissions, **owner).secret, "")


def wish(*permissions: str, **more: Any) -> dict[str, Any]:
    return {"name": "worker", "permissions": permissions or ["messages:send"], **more}


def key_of(client: ApiClient) -> str:
    return str(client.get("/v1/me").json()["id"])


def assert_refused(answer: Any, status: int, code: str) -> None:
    assert (answer.status_code, code_of(answer)) == (status, code), answer.content


def same_but_for_the_request(*answers: Any) -> None:
    """Check that answers differ in their Request-Id alone, byte for byte."""
    bodies = {a.content.replace(a["Request-Id"].encode(), b"") for a in answers}
    heads = {
        tuple(sorted((k, v) for k, v in a.items() if k != "Request-Id"))
        for a in answers
    }
    assert (len(bodies), len(heads)) == (1, 1), bodies


def test_a_key_is_made_and_its_secret_works(api: ApiClient, identity: Identity) -> None:
    ends = render_instant(database_now() + timedelta(days=1))

    made = api.post(
        "/v1/keys",
        wish("messages:read", "keys:manage", identity_id=identity.id, expires_at=ends),
    )

    assert made.status_code == 201, made.content
    KeyWithSecret.model_validate(made.json())
    body = made.json()
    assert body["secret"].startswith("pmk_live_")
    assert body["permissions"] == ["keys:manage", "messages:read"]
    assert (body["level"], body["mode"]) == ("identity", "live")
    assert (body["tenant_id"], body["identity_id"]) == (
        identity.tenant_id,
        identity.id,
    )
    assert body["expires_at"] == ends
    secret = body.pop("secret")
    assert api.get(f"/v1/keys/{body['id']}").json() == body
    holder = ApiClient(secret, identity.id)
    me = holder.get("/v1/me").json()
    assert {**me, "permissions": body["permissions"]} == body
    assert me["permissions"] == ["keys:manage", "messages:read", "usage:read"]
    Key.model_validate(me)
    assert ApiKey.objects.get(id=body["id"]).created_by_key_id == key_of(api)
    row = AuditRow.objects.get(action="key.create")
    assert (row.target_id, row.actor_key_id, row.tenant_id) == (
        body["id"],
        key_of(api),
        identity.tenant_id,
    )


def test_a_test_tenants_keys_say_so(sandbox_api: ApiClient) -> None:
    made = sandbox_api.post("/v1/keys", wish()).json()

    assert made["secret"].startswith("pmk_test_")
    assert made["mode"] == "test"


def test_a_key_without_an_owner_reaches_as_far_as_the_caller(
    identity: Identity, platform_api: ApiClient
) -> None:
    mine = client(identity=identity).post("/v1/keys", wish()).json()
    tenants = client(tenant=identity.tenant).post("/v1/keys", wish()).json()
    platforms = platform_api.post("/v1/keys", wish()).json()

    assert [k["level"] for k in (mine, tenants, platforms)] == [
        "identity",
        "tenant",
        "platform",
    ]
    assert mine["identity_id"] == identity.id
    assert tenants["tenant_id"] == identity.tenant_id


@pytest.mark.parametrize(
    ("body", "paths"),
    [
        ({"permissions": ["messages:send"]}, ["name"]),
        ({"name": "x"}, ["permissions"]),
        (wish() | {"permissions": []}, ["permissions"]),
        (wish("messages:*"), ["permissions[0]"]),
        (wish("messages:send", "*"), ["permissions[1]"]),
        (wish() | {"permissions": "messages:send"}, ["permissions"]),
        (wish(level="platform"), ["level"]),
        (wish(mode="live"), ["mode"]),
        (wish() | {"name": ""}, ["name"]),
        (wish() | {"name": "a\nb"}, ["name"]),
        (wish() | {"name": "n" * 101}, ["name"]),
        (wish(expires_at="tomorrow"), ["expires_at"]),
        (wish(expires_at="2020-01-01T00:00:00Z"), ["expires_at"]),
        (wish(tenant_id=7), ["tenant_id"]),
    ],
)
def test_a_malformed_wish_is_refused_with_its_path(
    api: ApiClient, body: Any, paths: list[str]
) -> None:
    before = ApiKey.objects.count()

    answer = api.post("/v1/keys", body)

    assert_refused(answer, 400, "invalid_request")
    assert paths_of(answer) == paths
    assert ApiKey.objects.count() == before


@pytest.mark.parametrize("scope", [s for s in Scope if LEVELS[s] != set(KeyLevel)])
def test_a_permission_above_the_level_is_refused_before_the_callers_own_are_asked(
    identity: Identity, scope: Scope
) -> None:
    narrow = client([S.KEYS_MANAGE], identity=identity)

    answer = narrow.post("/v1/keys", wish(str(scope)))

    assert_refused(answer, 400, "invalid_request")
    reason = answer.json()["error"]["details"]["reason"]
    assert reason == "permission_not_allowed_for_level"
    assert paths_of(answer) == ["permissions"]


def test_nobody_gives_what_they_do_not_hold(identity: Identity) -> None:
    """J20, for making keys."""
    other = IdentityFactory.create(tenant=identity.tenant)
    foreign = IdentityFactory.create()
    tenants = client([S.KEYS_MANAGE, S.MESSAGES_SEND], tenant=identity.tenant)
    mine = client([S.KEYS_MANAGE, S.MESSAGES_SEND], identity=identity)
    answers = [
        tenants.post("/v1/keys", wish("messages:read")),
        tenants.post("/v1/keys", wish(tenant_id=foreign.tenant_id)),
        tenants.post("/v1/keys", wish(tenant_id="ten_" + "0" * 26)),
        tenants.post("/v1/keys", wish(identity_id=foreign.id)),
        tenants.post("/v1/keys", wish(identity_id="idn_" + "0" * 26)),
        tenants.post("/v1/keys", wish(identity_id="nonsense")),
        tenants.post(
            "/v1/keys", wish(identity_id=identity.id, tenant_id=foreign.tenant_id)
        ),
        mine.post("/v1/keys", wish(tenant_id=identity.tenant_id)),
        mine.post("/v1/keys", wish(identity_id=other.id)),
        mine.post("/v1/keys", wish("messages:send", "webhooks:read")),
    ]

    for answer in answers:
        assert_refused(answer, 403, "key_scope_exceeded")
    same_but_for_the_request(*answers)
    assert not ApiKey.objects.filter(name="worker").exists()
    assert mine.post("/v1/keys", wish("usage:read")).status_code == 201
    assert tenants.post("/v1/keys", wish(identity_id=other.id)).status_code == 201


def test_a_platform_key_makes_keys_for_all_and_is_told_what_is_not_there(
    identity: Identity, platform_api: ApiClient
) -> None:
    tenant = TenantFactory.create(mode=TenantMode.TEST)
    post = platform_api.post

    made = post("/v1/keys", wish(tenant_id=tenant.id)).json()

    assert (made["level"], made["mode"]) == ("tenant", "test")
    missing = post("/v1/keys", wish(tenant_id="ten_" + "0" * 26))
    assert_refused(missing, 404, "tenant_not_found")
    for body in (
        wish(identity_id="idn_" + "0" * 26),
        wish(identity_id=identity.id, tenant_id=tenant.id),
    ):
        assert_refused(post("/v1/keys", body), 404, "identity_not_found")


def test_an_identity_that_is_being_deleted_gets_no_key(
    api: ApiClient, platform_api: ApiClient, identity: Identity
) -> None:
    assert api.delete(f"/v1/identities/{identity.id}").status_code == 202

    body = wish(identity_id=identity.id)
    assert_refused(api.post("/v1/keys", body), 403, "key_scope_exceeded")
    assert_refused(platform_api.post("/v1/keys", body), 404, "identity_not_found")
    assert not ApiKey.objects.filter(identity=identity).exists()


def test_a_key_out_of_reach_is_not_there(identity: Identity) -> None:
    """Byte for byte, on each of its routes."""
    foreign = IdentityFactory.create()
    sibling = IdentityFactory.create(tenant=identity.tenant)
    tenants, mine = client(tenant=identity.tenant), client(identity=identity)
    out_of_reach = {
        tenants: [create_key(name="x"), create_key(name="x", identity=foreign)],
        mine: [
            create_key(name="x"),
            create_key(name="x", tenant=identity.tenant),
            create_key(name="x", identity=sibling),
        ],
    }

    for caller, made in out_of_reach.items():
        ids = [NOWHERE, "key_", "nonsense", *(m.key.id for m in made)]
        for answers in (
            [caller.get(f"/v1/keys/{key_id}") for key_id in ids],
            [caller.delete(f"/v1/keys/{key_id}") for key_id in ids],
            [caller.post(f"/v1/keys/{key_id}/rotate") for key_id in ids],
            [caller.post(f"/v1/keys/{key_id}/rotate", {"x": 1}) for key_id in ids],
        ):
            assert_refused(answers[0], 404, "key_not_found")
            same_but_for_the_request(*answers)
    assert not ApiKey.objects.exclude(revoked_at=None).exists()


def test_a_wider_key_is_not_touched(identity: Identity) -> None:
    """J20: it holds one scope that the caller lacks."""
    caller = client([S.KEYS_MANAGE, S.MESSAGES_SEND], tenant=identity.tenant)
    wide = [
        create_key(name="w", tenant=identity.tenant, permissions=[S.MESSAGES_READ]),
        create_key(
            name="w",
            identity=identity,
            permissions=[S.MESSAGES_SEND, S.ATTACHMENTS_READ],
        ),
    ]
    before = list(ApiKey.objects.filter(name="w").order_by("id").values())

    for key_id in (made.key.id for made in wide):
        assert_refused(caller.get(f"/v1/keys/{key_id}"), 403, "key_scope_exceeded")
        assert_refused(caller.delete(f"/v1/keys/{key_id}"), 403, "key_scope_exceeded")
        turned = caller.post(f"/v1/keys/{key_id}/rotate")
        assert_refused(turned, 403, "key_scope_exceeded")

    assert list(ApiKey.objects.filter(name="w").order_by("id").values()) == before
    listed = [key["name"] for key in caller.get("/v1/keys").json()["data"]]
    assert listed == ["c"]


def test_the_list_holds_what_each_caller_may_read_alone(
    identity: Identity, platform_api: ApiClient
) -> None:
    tenant = identity.tenant
    foreign = create_key(name="foreign", identity=IdentityFactory.create()).key.id
    narrow = create_key(name="n", tenant=tenant, permissions=[S.MESSAGES_READ]).key.id
    whole = client(tenant=tenant)
    mine = client(identity=identity)
    part = client([S.KEYS_MANAGE, S.MESSAGES_READ], tenant=tenant)
    every = [row.id for row in ApiKey.objects.order_by("-created_at", "-id")]

    for caller in (whole, mine, part, platform_api):
        listed = caller.get("/v1/keys?limit=100").json()
        KeyPage.model_validate(listed)
        ids = [key["id"] for key in listed["data"]]
        readable = [
            key_id
            for key_id in every
            if caller.get(f"/v1/keys/{key_id}").status_code == 200
        ]
        assert ids == readable
    assert foreign in ids
    listed = [key["id"] for key in part.get("/v1/keys").json()["data"]]
    assert listed == [key_of(part), narrow]


def test_keys_are_listed_page_by_page(api: ApiClient) -> None:
    made = [api.post("/v1/keys", wish()).json()["id"] for _ in range(3)]

    first = api.get("/v1/keys?limit=2").json()
    second = api.get(f"/v1/keys?limit=2&cursor={first['next_cursor']}").json()

    ids = [key["id"] for key in first["data"] + second["data"]]
    assert ids == [*reversed(made), key_of(api)]
    assert second["next_cursor"] is None
    assert paths_of(api.get("/v1/keys?tenant=x")) == ["tenant"]
    assert all("secret" not in key and "hash" not in key for key in first["data"])


def test_keys_manage_is_needed(identity: Identity) -> None:
    poor = client([S.MESSAGES_SEND], tenant=identity.tenant)
    mine = f"/v1/keys/{key_of(poor)}"

    for answer in (
        poor.get("/v1/keys"),
        poor.post("/v1/keys", wish()),
        poor.get(mine),
        poor.delete(mine),
        poor.post(f"{mine}/rotate"),
    ):
        assert_refused(answer, 403, "permission_denied")
        assert answer.json()["error"]["details"]["required"] == ["keys:manage"]


def test_a_revoked_key_is_refused_at_once_and_what_it_made_lives_on(
    api: ApiClient,
) -> None:
    parent = api.post("/v1/keys", wish("keys:manage", "messages:send")).json()
    holder = ApiClient(parent["secret"], "")
    child = holder.post("/v1/keys", wish()).json()
    old = parent["secret"]
    new = api.post(f"/v1/keys/{parent['id']}/rotate").json()["secret"]

    revoked = api.delete(f"/v1/keys/{parent['id']}")

    assert (revoked.status_code, revoked.content) == (204, b"")
    assert_refused(ApiClient(new, "").get("/v1/me"), 401, "key_revoked")
    assert_refused(ApiClient(old, "").get("/v1/me"), 401, "unauthenticated")
    assert ApiClient(child["secret"], "").get("/v1/me").status_code == 200
    row = ApiKey.objects.get(id=parent["id"])
    assert (row.prev_hash, row.prev_expires_at) == (None, None)
    again = api.delete(f"/v1/keys/{parent['id']}")
    assert again.status_code == 204
    shown = api.get(f"/v1/keys/{parent['id']}").json()
    assert shown["revoked_at"] == render_instant(row.revoked_at or database_now())
    audited = AuditRow.objects.get(action="key.revoke")
    assert (audited.target_id, audited.actor_key_id) == (parent["id"], key_of(api))


def test_a_key_may_end_itself(api: ApiClient) -> None:
    assert api.delete(f"/v1/keys/{key_of(api)}").status_code == 204

    assert_refused(api.get("/v1/me"), 401, "key_revoked")


def test_a_key_ends_by_the_databases_clock(api: ApiClient) -> None:
    ends = render_instant(database_now() + timedelta(hours=1))
    made = api.post("/v1/keys", wish(expires_at=ends)).json()
    holder = ApiClient(made["secret"], "")
    assert holder.get("/v1/me").status_code == 200

    clock.offset = timedelta(hours=1)

    assert_refused(holder.get("/v1/me"), 401, "key_expired")


def test_two_secrets_count_until_the_overlap_ends(api: ApiClient) -> None:
    made = api.post("/v1/keys", wish()).json()
    path = f"/v1/keys/{made['id']}/rotate"

    turned = api.post(path, {"overlap_hours": 2})

    assert turned.status_code == 200
    KeyWithSecret.model_validate(turned.json())
    secrets = [made["secret"], turned.json()["secret"]]
    assert secrets[0][:22] == secrets[1][:22]  # the same lookup
    assert {**turned.json(), "secret": made["secret"]} == made
    assert [statuses(secret) for secret in secrets] == [200, 200]
    clock.offset = timedelta(hours=2)
    assert [statuses(secret) for secret in secrets] == [401, 200]
    row = AuditRow.objects.get(action="key.rotate")
    assert (row.target_id, row.details) == (made["id"], {"overlap_hours": 2})


def test_never_more_than_two_secrets_count(api: ApiClient) -> None:
    made = api.post("/v1/keys", wish()).json()
    path = f"/v1/keys/{made['id']}/rotate"
    secrets = [made["secret"]]
    secrets += [api.post(path).json()["secret"] for _ in range(3)]

    assert [statuses(secret) for secret in secrets] == [401, 401, 200, 200]
    kept = ApiKey.objects.get(id=made["id"]).prev_expires_at
    assert kept is not None
    assert timedelta(hours=23.9) < kept - database_now() <= timedelta(hours=24)
    secrets.append(api.post(path, {"overlap_hours": 0}).json()["secret"])
    assert [statuses(secret) for secret in secrets] == [401, 401, 401, 401, 200]
    assert ApiKey.objects.get(id=made["id"]).prev_hash is None


def statuses(secret: str) -> int:
    return int(ApiClient(secret, "").get("/v1/me").status_code)


@pytest.mark.parametrize("hours", [-1, 169, 1.5, "24", True, None])
def test_an_overlap_is_0_to_168_whole_hours(api: ApiClient, hours: Any) -> None:
    before = ApiKey.objects.values().get()

    answer = api.post(f"/v1/keys/{before['id']}/rotate", {"overlap_hours": hours})

    assert paths_of(answer) == ["overlap_hours"]
    assert ApiKey.objects.values("hash", "prev_hash").get() == {
        "hash": before["hash"],
        "prev_hash": None,
    }


def test_a_key_that_has_ended_is_not_rotated(api: ApiClient) -> None:
    revoked = api.post("/v1/keys", wish()).json()["id"]
    api.delete(f"/v1/keys/{revoked}")
    ends = render_instant(database_now() + timedelta(hours=1))
    expired = api.post("/v1/keys", wish(expires_at=ends)).json()["id"]
    clock.offset = timedelta(hours=1)

    for key_id, reason in ((revoked, "key_revoked"), (expired, "key_expired")):
        answer = api.post(f"/v1/keys/{key_id}/rotate")
        assert_refused(answer, 400, "invalid_request")
        assert answer.json()["error"]["details"]["reason"] == reason


def test_the_list_takes_two_statements_however_long(
    api: ApiClient, identity: Identity, django_assert_num_queries: Any
) -> None:
    api.get("/v1/keys")  # it has now been used this minute
    for rows in (1, 21):
        with django_assert_num_queries(2):
            assert len(api.get("/v1/keys").json()["data"]) == rows
        for _ in range(20):
            create_key(name="x", identity=identity)
