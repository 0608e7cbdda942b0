"""Send lists: entries in the form of recipients, and sends that heed them at once."""

from typing import Any
from urllib.parse import quote

import pytest

from mailboxes.models import AuditRow, Identity, Tenant
from suppressions.api.schemas import ListEntryOut, ListEntryPage
from suppressions.models import SendListEntry
from tests.factories import IdentityFactory
from tests.support.api import ApiClient, booking, code_of, paths_of

pytestmark = pytest.mark.django_db
BLOCK, ALLOW = "send/block", "send/allow"


def path_of(identity: Identity, which: str, entry: str | None = None) -> str:
    path = f"/v1/tenants/{identity.tenant_id}/lists/{which}"
    return path if entry is None else f"{path}/{quote(entry, safe='')}"


def reason_of_a_send(api: ApiClient, to: str, key: str) -> str | None:
    sent = api.send(booking(to=[to]), key=key)
    assert sent.status_code == 202, sent.content
    reason: str | None = sent.json()["deliveries"][0]["reason"]
    return reason


@pytest.mark.parametrize(
    ("said", "stored"),
    [
        ("Jo@Example.NET", "jo@example.net"),
        (" jo@example.net. ", "jo@example.net"),
        ("@Example.NET", "@example.net"),
        (" @bücher.example ", "@xn--bcher-kva.example"),
        ("@XN--BCHER-KVA.example", "@xn--bcher-kva.example"),
        ("ana@BÜCHER.example", "ana@xn--bcher-kva.example"),
        ("a/b+c?#%@example.net", "a/b+c?#%@example.net"),
    ],
)
def test_an_entry_is_kept_in_the_form_of_recipients(
    api: ApiClient, identity: Identity, said: str, stored: str
) -> None:
    path = path_of(identity, BLOCK, said)

    put = api.put(path, {"note": "n"})

    assert put.status_code == 200, put.content
    ListEntryOut.model_validate(put.json())
    assert {**put.json(), "created_at": None} == {
        "direction": "send",
        "kind": "block",
        "entry": stored,
        "note": "n",
        "created_at": None,
    }
    assert api.get(path).json() == put.json()
    assert api.get(path_of(identity, BLOCK)).json()["data"] == [put.json()]
    assert api.delete(path).status_code == 204
    assert not SendListEntry.objects.exists()


def test_a_put_is_an_upsert_of_the_note(api: ApiClient, identity: Identity) -> None:
    path = path_of(identity, BLOCK, "@example.net")
    first = api.put(path, {"note": "a"}).json()

    notes = [api.put(path, body).json() for body in ({"note": "b"}, {}, None)]

    assert [row["note"] for row in notes] == ["b", None, None]
    assert {row["created_at"] for row in notes} == {first["created_at"]}
    assert SendListEntry.objects.count() == 1
    actions = AuditRow.objects.values_list("action", flat=True)
    assert list(actions) == ["list_entry.put"] * 4
    assert "example.net" not in str(list(AuditRow.objects.values()))


@pytest.mark.parametrize(
    ("entry", "code"),
    [
        ("jo", "address_invalid"),
        ("@", "address_invalid"),
        ("@localhost", "address_invalid"),
        ("jo@", "address_invalid"),
        ("@exa mple.net", "address_invalid"),
        ("@example..net", "address_invalid"),
        ("*@example.net@", "address_invalid"),
        ("jo@example.net\r", "address_invalid"),
        ("jö@example.net", "address_unsupported"),
    ],
)
def test_what_is_no_entry_is_refused_with_its_path(
    api: ApiClient, identity: Identity, entry: str, code: str
) -> None:
    path = path_of(identity, BLOCK, entry)

    for answer in (api.put(path), api.get(path), api.delete(path)):
        assert (answer.status_code, code_of(answer)) == (400, code)
        assert paths_of(answer) == ["entry"]
    assert not SendListEntry.objects.exists()


@pytest.mark.parametrize(
    ("body", "paths"),
    [({"note": 1}, ["note"]), ({"note": "n" * 501}, ["note"]), ({"x": 1}, ["x"])],
)
def test_a_malformed_note_is_refused_with_its_path(
    api: ApiClient, identity: Identity, body: Any, paths: list[str]
) -> None:
    answer = api.put(path_of(identity, BLOCK, "@example.net"), body)

    assert (answer.status_code, paths_of(answer)) == (400, paths)
    assert not SendListEntry.objects.exists()


def test_an_entry_that_is_not_there(api: ApiClient, identity: Identity) -> None:
    api.put(path_of(identity, ALLOW, "jo@example.net"))
    api.put(path_of(identity, "receive/block", "jo@example.net"))
    path = path_of(identity, BLOCK, "jo@example.net")

    for answer in (api.get(path), api.delete(path)):
        assert (answer.status_code, code_of(answer)) == (404, "list_entry_not_found")


@pytest.mark.parametrize("which", ["send/deny", "out/block", "SEND/block"])
def test_a_list_that_does_not_exist(
    api: ApiClient, identity: Identity, which: str
) -> None:
    answer = api.get(path_of(identity, which))

    assert (answer.status_code, code_of(answer)) == (404, "route_not_found")


def test_each_list_is_its_own_and_is_read_page_by_page(
    api: ApiClient, identity: Identity
) -> None:
    for which in (BLOCK, ALLOW, "receive/block", "receive/allow"):
        for n in range(3):
            api.put(path_of(identity, which, f"@{n}.example"))

    first = api.get(path_of(identity, BLOCK) + "?limit=2").json()
    cursor = first["next_cursor"]
    second = api.get(path_of(identity, BLOCK) + f"?limit=2&cursor={cursor}").json()

    ListEntryPage.model_validate(first)
    rows = first["data"] + second["data"]
    assert [row["entry"] for row in rows] == ["@2.example", "@1.example", "@0.example"]
    assert {(row["direction"], row["kind"]) for row in rows} == {("send", "block")}
    elsewhere = api.get(path_of(identity, ALLOW) + f"?limit=2&cursor={cursor}")
    assert paths_of(elsewhere) == ["cursor"]


def test_a_list_takes_three_statements_however_long(
    api: ApiClient, identity: Identity, django_assert_num_queries: Any
) -> None:
    for rows in (0, 20):
        api.get(path_of(identity, BLOCK))  # its key has now been used this minute
        with django_assert_num_queries(3):
            assert len(api.get(path_of(identity, BLOCK)).json()["data"]) == rows
        for n in range(20):
            api.put(path_of(identity, BLOCK, f"@{n}.example"))


def test_the_next_send_heeds_a_change(api: ApiClient, identity: Identity) -> None:
    Tenant.objects.update(policy={"send_allowlist_only": True})
    assert reason_of_a_send(api, "Jo@Example.net", "a") == "not_on_allowlist"
    api.put(path_of(identity, ALLOW, "@EXAMPLE.net"))
    assert reason_of_a_send(api, "Jo@Example.net", "b") is None
    api.put(path_of(identity, BLOCK, "JO@example.net"))
    assert reason_of_a_send(api, "Jo@Example.net", "c") == "send_block"
    api.delete(path_of(identity, BLOCK, "jo@example.net"))
    api.put(path_of(identity, "receive/block", "jo@example.net"))
    assert reason_of_a_send(api, "Jo@Example.net", "d") is None
    api.delete(path_of(identity, ALLOW, "@example.net"))
    assert reason_of_a_send(api, "Jo@Example.net", "e") == "not_on_allowlist"


def test_a_tenant_out_of_reach_has_no_lists(
    api: ApiClient, identity: Identity, platform_api: ApiClient
) -> None:
    foreign = IdentityFactory.create()
    platform_api.put(path_of(foreign, BLOCK, "@example.net"))

    def bare(tenant_id: str) -> list[bytes]:
        path = f"/v1/tenants/{tenant_id}/lists/{BLOCK}"
        answers = [
            api.get(path),
            api.get(f"{path}?x=1"),
            api.get(f"/v1/tenants/{tenant_id}/lists/no/list"),
            *(
                act(f"{path}/{entry}")
                for act in (api.get, api.put, api.delete)
                for entry in ("@example.net", "nonsense")
            ),
            api.put(f"{path}/@example.net", {"x": 1}),
        ]
        assert {code_of(a) for a in answers} == {"tenant_not_found"}
        return [a.content.replace(a["Request-Id"].encode(), b"") for a in answers]

    assert bare(foreign.tenant_id) == bare("ten_" + "0" * 26) == bare("nonsense")
    assert SendListEntry.objects.get().note is None
    assert len(platform_api.get(path_of(foreign, BLOCK)).json()["data"]) == 1
