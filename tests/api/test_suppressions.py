"""Suppressions by hand: once, hashed, listed, lifted; known in every spelling."""

from functools import partial
from typing import Any
from urllib.parse import quote

import pytest
from django.db import connection

from core.clock import database_now
from mailboxes.key_services import create_key
from mailboxes.models import AuditRow, Event, Identity
from mailboxes.scopes import Scope
from mailboxes.services import NewEvent
from suppressions.api.schemas import SuppressionOut, SuppressionPage
from suppressions.models import Suppression
from suppressions.services import NewSuppression, suppress
from suppressions.statuses import SuppressionReason
from tests.factories import IdentityFactory
from tests.support.api import ApiClient, booking, code_of, paths_of
from tests.support.racers import Racers

pytestmark = pytest.mark.django_db
R = SuppressionReason
NOWHERE = "ten_" + "0" * 26


def path_of(identity: Identity, rest: str = "") -> str:
    return f"/v1/tenants/{identity.tenant_id}/suppressions{rest}"


def seen(identity: Identity, address: str, reason: R) -> None:
    """Suppress an address as a delivery event does."""
    suppress(
        [NewSuppression(address, reason)],
        tenant_id=identity.tenant_id,
        source_message_id="msg_" + "0" * 26,
        now=database_now(),
    )


def status_of_a_send(api: ApiClient, to: str, key: str) -> str:
    sent = api.send(booking(to=[to]), key=key)
    assert sent.status_code == 202, sent.content
    return str(sent.json()["deliveries"][0]["status"])


SPELLINGS = [
    ("User@Example.COM", "user@example.com"),
    ("user@example.com", " USER@example.com "),
    (" USER@example.com ", "User@Example.COM"),
    ("<user@example.com.>", "user@example.com"),
    ("ana@bücher.example", "ana@xn--bcher-kva.example"),
    ("ana@xn--bcher-kva.example", "ANA@BÜCHER.example"),
    ("o/ps+tag@example.com", "O/PS+tag@example.com"),
]


@pytest.mark.parametrize(("said", "written"), SPELLINGS)
def test_r25_an_address_is_suppressed_found_and_lifted_in_every_spelling(
    api: ApiClient, identity: Identity, said: str, written: str
) -> None:
    made = api.post(path_of(identity), {"address": said})
    assert made.status_code == 201, made.content
    assert status_of_a_send(api, written, "a") == "suppressed"

    listed = api.get(path_of(identity, f"?address={quote(written)}")).json()
    again = api.post(path_of(identity), {"address": written, "reason": "unsubscribe"})

    assert listed["data"] == [made.json()] == [again.json()]
    assert again.status_code == 200
    lifted = api.delete(path_of(identity, f"/{quote(written, safe='')}"))
    assert (lifted.status_code, lifted.content) == (204, b"")
    assert status_of_a_send(api, written, "b") == "queued"


def test_a_suppression_is_shown_by_hint_alone(
    api: ApiClient, identity: Identity
) -> None:
    body = {"address": "jo@example.net", "note": "asked by phone"}

    made = api.post(path_of(identity), body)

    SuppressionOut.model_validate(made.json())
    assert {**made.json(), "created_at": None} == {
        "address_hint": "j***@example.net",
        "reason": "manual",
        "note": "asked by phone",
        "created_at": None,
        "expires_at": None,
    }
    row = Suppression.objects.get()
    assert row.source_message_id is None
    audited = AuditRow.objects.get(action="suppression.create")
    assert (audited.tenant_id, audited.details) == (
        identity.tenant_id,
        {"reason": "manual"},
    )


def test_one_event_tells_of_it_once(api: ApiClient, identity: Identity) -> None:
    for reason in ("manual", "unsubscribe"):
        api.post(path_of(identity), {"address": "jo@example.net", "reason": reason})
    api.post(path_of(identity), {"address": "lee@example.net"})

    first, second = Event.objects.filter(type="suppression.created").order_by("seq")

    assert first.payload["data"] == {
        "address_hint": "j***@example.net",
        "reason": "manual",
        "source_message_id": None,
    }
    assert (first.tenant_id, first.identity_id) == (identity.tenant_id, None)
    assert first.payload["sequence"] is first.payload["identity_id"] is None
    assert first.seq < second.seq


def test_the_event_of_a_suppression_has_the_one_id_of_its_row(
    identity: Identity,
) -> None:
    at = database_now()

    def raised() -> list[NewEvent]:
        return suppress(
            [NewSuppression("jo@example.net", R.MANUAL)],
            tenant_id=identity.tenant_id,
            source_message_id=None,
            now=at,
        )

    first, second = raised(), raised()
    Suppression.objects.all().delete()
    third = raised()

    assert [len(events) for events in (first, second, third)] == [1, 0, 1]
    assert first[0].id == third[0].id


@pytest.mark.parametrize(
    ("body", "code", "paths"),
    [
        ({}, "invalid_request", ["address"]),
        ({"address": None}, "invalid_request", ["address"]),
        ({"address": ["jo@example.net"]}, "invalid_request", ["address"]),
        ({"address": "jo"}, "address_invalid", ["address"]),
        ({"address": "jo@"}, "address_invalid", ["address"]),
        ({"address": "@example.net"}, "address_invalid", ["address"]),
        ({"address": "jö@example.net"}, "address_unsupported", ["address"]),
        (
            {"address": "jo@example.net", "reason": "complaint"},
            "invalid_request",
            ["reason"],
        ),
        ({"address": "jo@example.net", "note": "n" * 501}, "invalid_request", ["note"]),
        (
            {"address": "jo@example.net", "expires_at": None},
            "invalid_request",
            ["expires_at"],
        ),
    ],
)
def test_what_is_no_suppression_is_refused_with_its_path(
    api: ApiClient, identity: Identity, body: Any, code: str, paths: list[str]
) -> None:
    answer = api.post(path_of(identity), body)

    assert (answer.status_code, code_of(answer)) == (400, code)
    assert paths_of(answer) == paths
    assert not Suppression.objects.exists()


def test_suppressions_are_listed_and_filtered(
    api: ApiClient, identity: Identity
) -> None:
    seen(IdentityFactory.create(), "foreign@example.net", R.COMPLAINT)
    for n in range(3):
        seen(identity, f"{n}@example.net", R.HARD_BOUNCE)
    seen(identity, "c@example.net", R.COMPLAINT)

    def hints(query: str) -> list[str]:
        page = api.get(path_of(identity, query)).json()
        SuppressionPage.model_validate(page)
        return [row["address_hint"][0] for row in page["data"]]

    assert hints("") == ["c", "2", "1", "0"]
    assert hints("?reason=complaint") == ["c"]
    assert hints("?reason=hard_bounce&address=1@example.net") == ["1"]
    assert hints("?reason=manual") == hints("?address=no@example.net") == []
    first = api.get(path_of(identity, "?limit=3")).json()
    assert hints(f"?limit=3&cursor={first['next_cursor']}") == ["0"]
    for query in ("?reason=spam", "?hint=j"):
        answer = api.get(path_of(identity, query))
        assert code_of(answer) == "invalid_request"
    invalid = api.get(path_of(identity, "?address=nobody"))
    assert (code_of(invalid), paths_of(invalid)) == ("address_invalid", ["address"])


def test_the_list_takes_three_statements_however_long(
    api: ApiClient, identity: Identity, django_assert_num_queries: Any
) -> None:
    api.get(path_of(identity))  # its key has now been used this minute
    for rows in (0, 20):
        with django_assert_num_queries(3):
            assert len(api.get(path_of(identity)).json()["data"]) == rows
        for n in range(20):
            seen(identity, f"{n}@example.net", R.MANUAL)


def test_lifting_a_complaint_must_be_meant(api: ApiClient, identity: Identity) -> None:
    seen(identity, "jo@example.net", R.COMPLAINT)
    path = path_of(identity, "/jo@example.net")

    for body in (None, {}, {"confirm_complaint_removal": False}):
        answer = api.delete(path, body)
        assert (answer.status_code, code_of(answer)) == (400, "invalid_request")
        assert paths_of(answer) == ["confirm_complaint_removal"]
    assert paths_of(api.delete(path, {"confirm_complaint_removal": "yes"})) == [
        "confirm_complaint_removal"
    ]
    assert paths_of(api.delete(path, {"confirm": True})) == ["confirm"]
    assert Suppression.objects.exists()
    assert not AuditRow.objects.exists()

    lifted = api.delete(path, {"confirm_complaint_removal": True})

    assert lifted.status_code == 204
    assert not Suppression.objects.exists()
    row = AuditRow.objects.get(action="suppression.delete")
    assert row.details == {"reason": "complaint"}
    assert row.actor_key_id == api.get("/v1/me").json()["id"]
    gone = api.delete(path, {"confirm_complaint_removal": True})
    assert (gone.status_code, code_of(gone)) == (404, "suppression_not_found")


@pytest.mark.parametrize("reason", [r for r in R if r != R.COMPLAINT])
def test_other_reasons_need_no_confirmation(
    api: ApiClient, identity: Identity, reason: R
) -> None:
    seen(identity, "jo@example.net", reason)

    assert api.delete(path_of(identity, "/jo@example.net")).status_code == 204


def test_a_tenant_out_of_reach_is_not_there(
    api: ApiClient, identity: Identity, platform_api: ApiClient
) -> None:
    foreign = IdentityFactory.create()
    seen(foreign, "jo@example.net", R.MANUAL)

    def answers(tenant_id: str) -> list[Any]:
        path = f"/v1/tenants/{tenant_id}/suppressions"
        return [
            api.get(path),
            api.get(f"{path}?nonsense=1"),
            api.post(path, {"address": "lee@example.net"}),
            api.post(path, {"nonsense": 1}),
            api.delete(f"{path}/jo@example.net"),
            api.delete(f"{path}/nonsense", {"nonsense": 1}),
        ]

    def bare(tenant_id: str) -> list[bytes]:
        found = answers(tenant_id)
        assert {code_of(a) for a in found} == {"tenant_not_found"}
        return [a.content.replace(a["Request-Id"].encode(), b"") for a in found]

    assert bare(foreign.tenant_id) == bare(NOWHERE) == bare("nonsense")
    assert Suppression.objects.get().tenant_id == foreign.tenant_id
    assert not AuditRow.objects.exists()
    assert len(platform_api.get(path_of(foreign)).json()["data"]) == 1
    made = platform_api.post(path_of(foreign), {"address": "lee@example.net"})
    assert made.status_code == 201
    assert platform_api.delete(path_of(foreign, "/jo@example.net")).status_code == 204


def test_an_identitys_key_cannot_manage_them(identity: Identity) -> None:
    secret = create_key(name="i", identity=identity).secret
    poor = create_key(
        name="t", tenant=identity.tenant, permissions=[Scope.MESSAGES_SEND]
    ).secret

    for key in (secret, poor):
        answer = ApiClient(key, "").get(path_of(identity))
        assert (answer.status_code, code_of(answer)) == (403, "permission_denied")


CANARY = "canary.7f3a"


@pytest.mark.django_db(transaction=True)
def test_the_clear_address_is_kept_and_said_nowhere(
    api: ApiClient, identity: Identity, capfd: pytest.CaptureFixture[str]
) -> None:
    address = f"{CANARY}@example.net"
    path = path_of(identity, f"/{address}")
    answers = [
        api.post(path_of(identity), {"address": address}, key="k"),
        api.post(path_of(identity), {"address": address}, key="k"),
        api.get(path_of(identity, f"?address={address}")),
        api.get(path_of(identity)),
        api.delete(path),
        api.delete(path),
        api.post(path),  # no such verb
        api.get(f"{path}/nothing"),
    ]

    assert [a.status_code for a in answers] == [201, 201, 200, 200, 204, 404, 405, 405]
    for answer in answers:
        assert CANARY not in answer.content.decode() + str(dict(answer.items()))
    stored = []
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f'SELECT t::text FROM "{table}" AS t')  # noqa: S608
            stored += [row[0] for row in cursor.fetchall()]
    assert any("suppression.created" in row for row in stored)
    assert not [row for row in stored if CANARY in row]
    said = "".join(capfd.readouterr())
    assert "suppressions/<path:address>" in said
    assert CANARY not in said


@pytest.mark.django_db(transaction=True)
def test_eight_at_once_make_one_row_one_event_and_one_audit_row(
    api: ApiClient, identity: Identity
) -> None:
    racers = Racers(8)
    try:
        for n in range(5):
            body = {"address": f"{n}@example.net"}
            post = partial(ApiClient(api.secret, "").post, path_of(identity), body)
            statuses = [
                getattr(a, "status_code", a) for a in racers.at_once([post] * 8)
            ]
            assert sorted(map(str, statuses)) == ["200"] * 7 + ["201"]
    finally:
        racers.close()

    assert Suppression.objects.count() == 5
    assert Event.objects.filter(type="suppression.created").count() == 5
    assert AuditRow.objects.filter(action="suppression.create").count() == 5
