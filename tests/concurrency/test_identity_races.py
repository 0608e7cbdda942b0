"""Identities and addresses changed by many at once: one order, whatever it is."""

import itertools
from collections import Counter
from functools import partial
from typing import Any

import pytest
from django.db import transaction
from pytest_django import Settings

from core import points
from domains.models import Domain
from domains.statuses import DomainState
from mailboxes.address_rules import MOST_ADDRESSES, SendingDomain
from mailboxes.address_sweeps import activate_addresses, retire_due
from mailboxes.key_services import create_key
from mailboxes.models import Address, ApiKey, Event, Identity, Mailbox, Message
from mailboxes.statuses import AddressRole
from mailboxes.tenant_services import resume_tenant
from outbound.models import LedgerEntry
from tests.factories import AddressFactory, DomainFactory, IdentityFactory
from tests.support.api import ApiClient, booking, code_of
from tests.support.racers import Racers
from tests.support.scripted import ScriptedTransport, work

pytestmark = pytest.mark.django_db(transaction=True)

ROUNDS = 8


@pytest.fixture(autouse=True)
def _no_limits(settings: Settings) -> None:
    settings.PM_RATE_SENDS = settings.PM_RATE_PER_KEY = settings.PM_RATE_PER_TENANT = 0


@pytest.fixture
def domain(transactional_db: None) -> Domain:
    return DomainFactory.create()


@pytest.fixture
def secret(domain: Domain) -> str:
    assert domain.tenant is not None
    return create_key(name="t", tenant=domain.tenant).secret


def identity_on(domain: Domain) -> Identity:
    """Return an identity whose primary address is on the domain."""
    identity = IdentityFactory.create(tenant=domain.tenant)
    AddressFactory.create(identity=identity, domain=domain)
    return identity


def alias_of(identity: Identity, domain: Domain, name: str) -> Address:
    return AddressFactory.create(
        identity=identity,
        domain=domain,
        local_part=f"{name}{identity.username}",
        role=AddressRole.ALIAS,
    )


def post(secret: str, path: str, body: Any = None) -> Any:
    return ApiClient(secret, "").post(path, body)


def act(secret: str, address: Address, verb: str, **body: int) -> Any:
    path = f"/v1/identities/{address.identity_id}/addresses/{address.id}/{verb}"
    return post(secret, path, body)


def test_promotions_at_once_leave_one_primary_address(
    racers: Racers, domain: Domain, secret: str
) -> None:
    for _ in range(3):
        identity = identity_on(domain)
        aliases = [alias_of(identity, domain, f"{n}-") for n in range(8)]

        answers = racers.at_once(
            [partial(act, secret, alias, "promote") for alias in aliases]
        )

        assert {getattr(a, "status_code", a) for a in answers} == {200}
        own = Address.objects.filter(identity=identity)
        assert own.filter(role="primary", status="active").count() == 1
        told = Event.objects.filter(
            identity=identity, type="identity.address_promoted"
        ).order_by("seq")
        chain = [row.payload["data"] for row in told]
        assert len(chain) == 8
        for before, after in itertools.pairwise(chain):
            assert after["previous_primary"]["id"] == before["address"]["id"]


def test_a_retirement_and_a_promotion_at_once_never_retire_the_primary(
    racers: Racers, domain: Domain, secret: str
) -> None:
    seen: Counter[Any] = Counter()
    for _ in range(ROUNDS):
        alias = alias_of(identity_on(domain), domain, "x-")

        retired, promoted = racers.at_once(
            [
                partial(act, secret, alias, "retire", after_days=0),
                partial(act, secret, alias, "promote"),
            ]
        )

        assert hasattr(retired, "status_code"), retired
        assert hasattr(promoted, "status_code"), promoted
        seen[retired.status_code, promoted.status_code] += 1
        alias.refresh_from_db()
        if promoted.status_code == 200:
            assert code_of(retired) == "address_is_primary"
            assert (alias.role, alias.status) == ("primary", "active")
        else:
            assert (alias.role, alias.status) == ("alias", "retired")
    assert set(seen) <= {(409, 200), (200, 400)}


def test_the_minute_job_and_a_promotion_at_once_never_retire_the_primary(
    racers: Racers, domain: Domain, secret: str
) -> None:
    for _ in range(ROUNDS):
        alias = alias_of(identity_on(domain), domain, "x-")
        Address.objects.filter(id=alias.id).update(
            status="retiring", retire_at=alias.created_at
        )

        promoted, done = racers.at_once(
            [partial(act, secret, alias, "promote"), retire_due]
        )

        alias.refresh_from_db()
        assert hasattr(promoted, "status_code"), promoted
        if done:
            assert (alias.role, alias.status) == ("alias", "retired")
            assert promoted.status_code == 400
        else:
            assert (alias.role, alias.status) == ("primary", "active")
            assert alias.retire_at is None


def test_twenty_adds_at_once_stop_at_the_limit(domain: Domain, secret: str) -> None:
    racers = Racers(20)
    try:
        for _ in range(2):
            identity = identity_on(domain)
            for n in range(9):
                alias_of(identity, domain, f"{n}-")

            answers = racers.at_once(
                [
                    partial(
                        post,
                        secret,
                        f"/v1/identities/{identity.id}/addresses",
                        {
                            "domain_id": domain.id,
                            "local_part": f"{n}.{identity.username}",
                        },
                    )
                    for n in range(20)
                ]
            )

            found = Counter(getattr(a, "status_code", a) for a in answers)
            assert found == {201: 10, 422: 10}
            assert Address.objects.filter(identity=identity).count() == MOST_ADDRESSES
    finally:
        racers.close()


def test_twenty_that_want_names_that_look_alike_make_one_identity(
    domain: Domain, secret: str
) -> None:
    tenant = domain.tenant
    assert tenant is not None
    racers = Racers(20)
    names = ["modern", "rnodern", "MODERN"]
    try:
        answers = racers.at_once(
            [
                partial(
                    post,
                    secret,
                    f"/v1/tenants/{tenant.id}/identities",
                    {"username": names[n % 3], "display_name": "x"},
                )
                for n in range(20)
            ]
        )
    finally:
        racers.close()

    codes = Counter(
        "made" if a.status_code == 201 else code_of(a)  # type: ignore[attr-defined]
        for a in answers
    )
    assert codes == {"made": 1, "username_taken": 19}
    assert Identity.objects.filter(tenant=tenant).count() == 1


def test_twenty_creates_under_one_client_id_make_one_identity(
    domain: Domain, secret: str
) -> None:
    tenant = domain.tenant
    assert tenant is not None
    racers = Racers(20)
    body = {"username": "desk", "display_name": "x", "client_id": "c1"}
    try:
        answers: list[Any] = racers.at_once(
            [partial(post, secret, f"/v1/tenants/{tenant.id}/identities", body)] * 20
        )
    finally:
        racers.close()

    assert Counter(a.status_code for a in answers) == {201: 1, 200: 19}
    assert len({a.json()["id"] for a in answers}) == 1


def test_one_address_wanted_by_eight_identities_is_given_once(
    racers: Racers, domain: Domain, secret: str
) -> None:
    for n in range(3):
        identities = [identity_on(domain) for _ in range(8)]
        body = {"domain_id": domain.id, "local_part": f"info{n}"}

        answers: list[Any] = racers.at_once(
            [
                partial(post, secret, f"/v1/identities/{i.id}/addresses", body)
                for i in identities
            ]
        )

        codes = Counter(code_of(a) if a.status_code != 201 else "" for a in answers)
        assert codes == {"": 1, "address_taken": 7}


def test_an_address_is_not_given_on_while_its_identity_is_being_deleted(
    racers: Racers, domain: Domain, secret: str
) -> None:
    for _ in range(ROUNDS):
        going, other = identity_on(domain), identity_on(domain)
        body = {"domain_id": domain.id, "local_part": going.username}
        add = partial(post, secret, f"/v1/identities/{other.id}/addresses", body)
        client = ApiClient(secret, "")

        answers: list[Any] = racers.at_once(
            [partial(client.delete, f"/v1/identities/{going.id}"), *[add] * 4]
        )

        assert answers[0].status_code == 202
        assert {code_of(a) for a in answers[1:]} == {"address_taken"}


def test_no_send_is_accepted_once_the_deletion_has_committed(
    racers: Racers, domain: Domain, secret: str
) -> None:
    for _ in range(ROUNDS):
        identity = identity_on(domain)
        client = ApiClient(secret, identity.id)

        answers: list[Any] = racers.at_once(
            [
                *[partial(client.send, booking(), key=str(n)) for n in range(6)],
                partial(client.delete, f"/v1/identities/{identity.id}"),
            ]
        )

        assert answers[-1].status_code == 202
        accepted = [a.json()["id"] for a in answers[:-1] if a.status_code == 202]
        refused = [code_of(a) for a in answers[:-1] if a.status_code != 202]
        assert set(refused) <= {"identity_not_found"}
        stored = Message.objects.filter(identity=identity)
        assert set(stored.values_list("public_id", flat=True)) == set(accepted)
        assert LedgerEntry.objects.filter(identity_id=identity.id).count() == len(
            accepted
        )
        deleted_at = Event.objects.get(identity=identity, type="identity.updated").seq
        assert Mailbox.objects.get(identity=identity).next_event_seq == deleted_at + 1
        for message_id in accepted:  # what was accepted before has its end
            scripted = ScriptedTransport()
            work(message_id, scripted)
            assert not scripted.calls
        assert set(stored.values_list("status", flat=True)) <= {"canceled"}


def test_a_send_that_has_been_judged_is_refused_when_the_deletion_comes_first(
    racers: Racers, domain: Domain, secret: str
) -> None:
    identity = identity_on(domain)
    client = ApiClient(secret, identity.id)
    answers: list[Any] = []

    def delete() -> None:
        points.planted.clear()
        wanted = partial(client.delete, f"/v1/identities/{identity.id}")
        answers.extend(racers.at_once([wanted]))

    points.planted["submit.second_look"] = delete
    answer = client.send(booking())

    assert [a.status_code for a in answers] == [202]
    assert (answer.status_code, code_of(answer)) == (404, "identity_not_found")
    assert not Message.objects.exists()
    assert not LedgerEntry.objects.exists()


def test_an_address_added_while_its_domain_becomes_ready_is_active_in_the_end(
    racers: Racers, domain: Domain, secret: str
) -> None:
    ready = SendingDomain(domain.id, domain.name, is_platform=False, is_ready=True)

    def verify() -> None:
        with transaction.atomic():
            Domain.objects.filter(id=domain.id).update(state=DomainState.HEALTHY)
            activate_addresses(ready)

    for _ in range(ROUNDS):
        Domain.objects.filter(id=domain.id).update(state=DomainState.VERIFYING)
        identity = identity_on(domain)
        body = {"domain_id": domain.id, "local_part": f"x{identity.username}"}
        add = partial(post, secret, f"/v1/identities/{identity.id}/addresses", body)

        added, _ = racers.at_once([add, verify])

        assert getattr(added, "status_code", added) == 201
        assert Address.objects.get(
            address__startswith=f"x{identity.username}@"
        ).status == ("active")


def test_a_deletion_leaves_no_live_key_however_many_are_being_made(
    racers: Racers, domain: Domain, secret: str
) -> None:
    client = ApiClient(secret, "")
    seen: Counter[str] = Counter()
    for _ in range(15):
        identity = identity_on(domain)
        wish = {"name": "k", "permissions": ["messages:send"]}
        make = partial(client.post, "/v1/keys", {**wish, "identity_id": identity.id})

        answers: list[Any] = racers.at_once(
            [partial(client.delete, f"/v1/identities/{identity.id}"), *[make] * 3]
        )

        assert answers[0].status_code == 202
        seen.update("made" if a.status_code == 201 else code_of(a) for a in answers[1:])
        keys = ApiKey.objects.filter(identity=identity)
        assert not keys.filter(revoked_at=None).exists()
    assert set(seen) <= {"made", "key_scope_exceeded"}


def test_a_suspension_leaves_no_active_identity_however_many_are_being_made(
    racers: Racers, domain: Domain, secret: str
) -> None:
    tenant = domain.tenant
    assert tenant is not None
    path = f"/v1/tenants/{tenant.id}/identities"
    stop = partial(
        ApiClient(create_key(name="p").secret, "").patch,
        f"/v1/tenants/{tenant.id}",
        {"status": "suspended"},
    )
    for n in range(15):
        make = [
            partial(post, secret, path, {"username": f"n{n}x{k}", "display_name": "x"})
            for k in range(3)
        ]

        answers: list[Any] = racers.at_once([stop, *make])

        codes = [getattr(a, "status_code", a) for a in answers]
        assert codes == [200, 201, 201, 201]
        assert not Identity.objects.filter(tenant=tenant, status="active").exists()
        resume_tenant(tenant.id)
