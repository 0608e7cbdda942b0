"""Addresses: added, promoted, retired, deleted."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from core.clock import database_now
from core.hashing import address_hash
from core.ids import new_id
from domains.models import Domain
from domains.statuses import DomainState
from mailboxes.key_services import create_key
from mailboxes.models import Address, AddressTombstone, AuditRow, Event, Identity
from tests.factories import AddressFactory, DomainFactory, TenantFactory
from tests.support.api import ApiClient, booking, code_of, paths_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def domain(db: None) -> Domain:
    return DomainFactory.create(tenant=TenantFactory.create(slug="acme"))


@pytest.fixture
def client(domain: Domain) -> ApiClient:
    """A client whose identity has just its platform address."""
    assert domain.tenant is not None
    secret = create_key(name="t", tenant=domain.tenant).secret
    made = ApiClient(secret, "").post(
        f"/v1/tenants/{domain.tenant_id}/identities",
        {
            "username": "desk",
            "display_name": "Desk",
            "owner": {"name": "Ada", "email": "ada@example.com"},
        },
    )
    Event.objects.all().delete()
    AuditRow.objects.all().delete()
    return ApiClient(secret, made.json()["id"])


def path_of(client: ApiClient, address_id: str = "", verb: str = "") -> str:
    parts = [f"/v1/identities/{client.identity_id}/addresses", address_id, verb]
    return "/".join(part for part in parts if part)


def add(client: ApiClient, domain: Domain, name: str = "desk") -> Any:
    body = {"domain_id": domain.id, "local_part": name}
    answer = client.post(path_of(client), body)
    assert answer.status_code == 201, answer.content
    return answer.json()


def act(client: ApiClient, verb: str, address: Any, **body: int) -> Any:
    return client.post(path_of(client, address["id"], verb), body)


def standing(client: ApiClient) -> dict[str, tuple[str, str]]:
    """Return role and status of each address, by its id."""
    rows = client.get(path_of(client)).json()["data"]
    return {row["id"]: (row["role"], row["status"]) for row in rows}


def platform_address(client: ApiClient) -> Any:
    rows = client.get(path_of(client)).json()["data"]
    return next(row for row in rows if row["address"].endswith("@agents.test"))


def events() -> list[str]:
    found = Event.objects.order_by("seq").values_list("type", flat=True)
    return [type_.removeprefix("identity.address_") for type_ in found]


def test_an_address_on_a_ready_domain_is_an_active_alias(
    client: ApiClient, domain: Domain
) -> None:
    added = add(client, domain, "Info")

    assert added["address"] == f"info@{domain.name}"
    assert standing(client)[added["id"]] == ("alias", "active")
    assert events() == ["added"]
    assert Event.objects.get().payload["data"] == {"address": added}
    row = AuditRow.objects.get()
    assert (row.action, row.target_id) == ("address.add", added["id"])
    assert row.actor_key_id is not None


def test_a_pending_address_makes_room_for_the_next_on_its_domain(
    client: ApiClient, domain: Domain
) -> None:
    Domain.objects.filter(id=domain.id).update(state=DomainState.VERIFYING)

    first, second = add(client, domain, "one"), add(client, domain, "two")
    again = add(client, domain, "two")

    assert (first["status"], second["status"]) == ("pending", "pending")
    rows = standing(client)
    assert first["id"] not in rows
    assert second["id"] not in rows
    assert rows[again["id"]] == ("alias", "pending")


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"local_part": "x"}, "domain_id"),
        ({"domain_id": "x"}, "local_part"),
        ({"domain_id": "x", "local_part": "x", "address": "x"}, "address"),
    ],
)
def test_a_malformed_body_is_refused_with_its_path(
    client: ApiClient, body: dict[str, str], path: str
) -> None:
    assert paths_of(client.post(path_of(client), body)) == [path]


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("postmaster", "address_reserved"),
        ("a+b", "address_invalid"),
        ("ä", "address_unsupported"),
        ("x" * 41, "address_invalid"),
    ],
)
def test_a_local_part_that_cannot_be_had_is_refused(
    client: ApiClient, domain: Domain, name: str, code: str
) -> None:
    answer = client.post(path_of(client), {"domain_id": domain.id, "local_part": name})

    assert (code_of(answer), paths_of(answer)) == (code, ["local_part"])


def test_an_address_that_somebody_has_or_had_is_taken(
    client: ApiClient, domain: Domain
) -> None:
    AddressFactory.create(
        identity__tenant=domain.tenant, domain=domain, local_part="theirs"
    )
    AddressTombstone.objects.create(
        address_hash=address_hash(f"gone@{domain.name}"), reason="deleted"
    )
    AddressTombstone.objects.create(
        address_hash=address_hash(f"mine@{domain.name}"),
        reason="erased",
        identity_id=client.identity_id,
    )

    for name in ("theirs", "gone"):
        body = {"domain_id": domain.id, "local_part": name}
        answer = client.post(path_of(client), body)
        assert (answer.status_code, code_of(answer)) == (409, "address_taken")
    assert add(client, domain, "mine")["status"] == "active"


@pytest.mark.parametrize("whose", ["platform", "foreign", "missing"])
def test_only_a_domain_of_the_tenant_takes_addresses(
    client: ApiClient, whose: str
) -> None:
    domain_id = {
        "platform": Domain.objects.get(kind="platform").id,
        "foreign": DomainFactory.create().id,
        "missing": new_id("dom"),
    }[whose]

    answer = client.post(path_of(client), {"domain_id": domain_id, "local_part": "x"})

    assert (answer.status_code, code_of(answer)) == (404, "domain_not_found")


def test_the_twenty_first_address_is_refused_until_one_has_retired(
    client: ApiClient, domain: Domain
) -> None:
    added = [add(client, domain, f"a{n}") for n in range(19)]
    body = {"domain_id": domain.id, "local_part": "more"}

    refused = client.post(path_of(client), body)

    assert (refused.status_code, code_of(refused)) == (422, "address_limit_reached")
    assert refused.json()["error"]["details"] == {"limit": 20}
    act(client, "retire", added[0], after_days=0)
    assert client.post(path_of(client), body).status_code == 201


def test_a_promotion_keeps_the_platforms_address_as_an_active_alias(
    client: ApiClient, domain: Domain
) -> None:
    added, platform = add(client, domain), platform_address(client)

    promoted = act(client, "promote", added, retire_previous_after_days=0).json()

    assert (promoted["role"], promoted["status"]) == ("primary", "active")
    assert standing(client) == {
        added["id"]: ("primary", "active"),
        platform["id"]: ("alias", "active"),
    }
    assert events() == ["added", "promoted"]
    told = Event.objects.get(type="identity.address_promoted").payload["data"]
    assert told["address"] == promoted
    assert told["previous_primary"] == {**platform, "role": "alias"}
    row = AuditRow.objects.get(action="address.promote")
    assert row.details == {
        "identity_id": client.identity_id,
        "previous": platform["id"],
    }
    assert act(client, "promote", added).json() == promoted
    assert events() == ["added", "promoted"]


@pytest.mark.parametrize(("days", "status"), [(30, "retiring"), (0, "retired")])
def test_the_primary_before_retires_in_its_time(
    client: ApiClient, domain: Domain, days: int, status: str
) -> None:
    first, second = add(client, domain, "one"), add(client, domain, "two")
    act(client, "promote", first)

    act(client, "promote", second, retire_previous_after_days=days)

    assert standing(client)[first["id"]] == ("alias", status)
    assert events().count("retired") == (1 if days == 0 else 0)
    row = Address.objects.get(id=first["id"])
    if days:
        assert row.retire_at is not None
        assert abs(row.retire_at - database_now() - timedelta(days=days)) < (
            timedelta(minutes=1)
        )
    else:
        assert row.retired_at is not None


def test_a_promotion_of_a_retiring_address_takes_the_promotion_back(
    client: ApiClient, domain: Domain
) -> None:
    first, second = add(client, domain, "one"), add(client, domain, "two")
    act(client, "promote", first)
    act(client, "promote", second)

    back = act(client, "promote", first, retire_previous_after_days=0).json()

    assert (back["role"], back["retire_at"]) == ("primary", None)
    assert standing(client)[second["id"]] == ("alias", "active")


def test_a_promotion_of_the_platforms_address_takes_the_promotion_back(
    client: ApiClient, domain: Domain
) -> None:
    added, platform = add(client, domain), platform_address(client)
    act(client, "promote", added)

    act(client, "promote", platform, retire_previous_after_days=0)

    assert standing(client) == {
        platform["id"]: ("primary", "active"),
        added["id"]: ("alias", "active"),
    }


@pytest.mark.parametrize("state", ["verifying", "failing", "suspended"])
def test_nothing_is_promoted_on_a_domain_that_is_not_ready(
    client: ApiClient, domain: Domain, state: str
) -> None:
    added = add(client, domain)
    Domain.objects.filter(id=domain.id).update(state=state)

    answer = act(client, "promote", added)

    assert (answer.status_code, code_of(answer)) == (409, "domain_not_ready")


def test_a_retired_address_is_not_promoted(client: ApiClient, domain: Domain) -> None:
    added = add(client, domain)
    act(client, "retire", added, after_days=0)

    answer = act(client, "promote", added)

    assert (answer.status_code, code_of(answer)) == (400, "invalid_request")
    assert answer.json()["error"]["details"]["reason"] == "address_retired"


def test_retiring_again_moves_the_day_and_retired_is_the_end(
    client: ApiClient, domain: Domain
) -> None:
    added = add(client, domain)

    first = act(client, "retire", added).json()
    moved = act(client, "retire", added, after_days=7).json()
    retired = act(client, "retire", added, after_days=0).json()
    again = act(client, "retire", added, after_days=365).json()

    assert first["status"] == moved["status"] == "retiring"
    earlier = datetime.fromisoformat(moved["retire_at"])
    assert datetime.fromisoformat(first["retire_at"]) - earlier > timedelta(days=82)
    assert (retired["status"], retired["retire_at"]) == ("retired", None)
    assert again == retired
    assert events() == ["added", "retired"]
    body = {"domain_id": domain.id, "local_part": "desk"}
    assert code_of(client.post(path_of(client), body)) == "address_taken"


def test_neither_the_primary_nor_the_platforms_address_ends(
    client: ApiClient, domain: Domain
) -> None:
    added, platform = add(client, domain), platform_address(client)
    act(client, "promote", added)

    for address, code in (
        (added, "address_is_primary"),
        (platform, "address_in_use"),
    ):
        retired = act(client, "retire", address, after_days=0)
        deleted = client.delete(path_of(client, address["id"]))
        assert (retired.status_code, code_of(retired)) == (409, code)
        assert (deleted.status_code, code_of(deleted)) == (409, code)


def test_only_a_pending_address_is_deleted(client: ApiClient, domain: Domain) -> None:
    added = add(client, domain, "one")
    assert code_of(client.delete(path_of(client, added["id"]))) == "address_in_use"
    Domain.objects.filter(id=domain.id).update(state=DomainState.VERIFYING)
    pending = add(client, domain, "two")

    retired = act(client, "retire", pending)
    deleted = client.delete(path_of(client, pending["id"]))
    again = client.delete(path_of(client, pending["id"]))

    assert retired.json()["error"]["details"]["reason"] == "address_pending"
    assert (deleted.status_code, deleted.content) == (204, b"")
    assert code_of(again) == "address_not_found"
    assert pending["id"] not in standing(client)
    assert AuditRow.objects.filter(action="address.delete").count() == 1


@pytest.mark.parametrize("days", [-1, 366, "7", None, 1.5])
def test_days_are_a_whole_number_up_to_a_year(
    client: ApiClient, domain: Domain, days: Any
) -> None:
    added = add(client, domain)

    assert paths_of(act(client, "retire", added, after_days=days)) == ["after_days"]
    answer = act(client, "promote", added, retire_previous_after_days=days)
    assert paths_of(answer) == ["retire_previous_after_days"]


def test_a_foreign_address_is_as_one_that_is_missing(client: ApiClient) -> None:
    sibling = AddressFactory.create(
        identity__tenant=Identity.objects.get(id=client.identity_id).tenant
    )
    foreign = AddressFactory.create()

    def answers(address_id: str) -> list[Any]:
        path = path_of(client, address_id)
        found = [
            client.delete(path),
            client.post(f"{path}/promote", {"x": 1}),
            client.post(f"{path}/retire"),
        ]
        return [(a.status_code, {**a.json()["error"], "request_id": ""}) for a in found]

    missing = answers(new_id("adr"))
    assert answers(sibling.id) == answers(foreign.id) == answers("adr_x") == missing
    assert {body["code"] for _, body in missing} == {"address_not_found"}


def test_a_foreign_identitys_addresses_are_not_there(client: ApiClient) -> None:
    foreign = AddressFactory.create()

    def answers(identity_id: str) -> list[Any]:
        path = f"/v1/identities/{identity_id}/addresses"
        found = [
            client.get(path),
            client.post(path, {}),
            client.delete(f"{path}/{foreign.id}"),
            client.post(f"{path}/{foreign.id}/promote"),
            client.post(f"{path}/{foreign.id}/retire"),
        ]
        return [{**a.json()["error"], "request_id": ""} for a in found]

    assert answers(foreign.identity_id) == answers(new_id("idn"))
    assert {body["code"] for body in answers("idn_x")} == {"identity_not_found"}


def test_a_retiring_address_answers_its_threads_only(
    client: ApiClient, domain: Domain
) -> None:
    added = add(client, domain)
    used = client.send(booking(from_address=added["address"]), key="1").json()
    act(client, "retire", added)

    starts = client.send(booking(from_address=added["address"]), key="2")
    on_thread = booking(thread_id=used["thread_id"], from_address=added["address"])
    goes_on = client.send(on_thread, path=f"{client.path}?dry_run=true")
    act(client, "retire", added, after_days=0)
    later = client.send(booking(from_address=added["address"]), key="4")

    assert paths_of(starts) == ["from_address"]
    assert goes_on.json()["would_send"] is True
    assert paths_of(later) == ["from_address"]


def test_a_pending_address_does_not_send(client: ApiClient, domain: Domain) -> None:
    Domain.objects.filter(id=domain.id).update(state=DomainState.VERIFYING)
    added = add(client, domain)

    answer = client.send(booking(from_address=added["address"]))

    assert (answer.status_code, code_of(answer)) == (409, "domain_not_ready")


def test_a_list_takes_the_same_statements_for_one_row_and_for_many(
    client: ApiClient, domain: Domain
) -> None:
    def cost() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert client.get(path_of(client)).status_code == 200
        return len(captured)

    client.get(path_of(client))
    one = cost()
    for n in range(6):
        add(client, domain, f"a{n}")

    assert cost() == one <= 4
