"""Tenants changed by many at once, and suspended while mail is being submitted."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from django.db import connection, transaction
from pytest_django import Settings

from core import points
from core.errors import PylotaError
from mailboxes.callers import Caller
from mailboxes.key_services import create_key
from mailboxes.models import AuditRow, Event, Identity, Message, Tenant
from mailboxes.policy_services import change_policy
from mailboxes.services import pause_identity
from mailboxes.statuses import KeyLevel, TenantMode
from mailboxes.tenant_services import (
    NewTenant,
    SlugTaken,
    SuffixTaken,
    make_tenant,
    resume_tenant,
    suspend_tenant,
)
from quota.models import Allowance, Counter
from tests.concurrency.test_deadlocks import Deadlocks
from tests.factories import AddressFactory, TenantFactory
from tests.support.answering import received
from tests.support.api import ApiClient, booking, code_of
from tests.support.racers import Racers

pytestmark = pytest.mark.django_db(transaction=True)

PLATFORM = Caller(
    key_id="key_00000000000000000000000000",
    name="p",
    level=KeyLevel.PLATFORM,
    mode=TenantMode.LIVE,
    tenant_id=None,
    identity_id=None,
    scopes=frozenset(),
)


@pytest.fixture(autouse=True)
def _no_limits(settings: Settings) -> None:
    settings.PM_RATE_SENDS = settings.PM_RATE_PER_KEY = settings.PM_RATE_PER_TENANT = 0


@pytest.fixture
def deadlocks() -> Iterator[Deadlocks]:
    """Count the deadlocks of this test."""
    counter = Deadlocks()
    yield counter
    counter.close()


def change(tenant: Tenant, wanted: dict[str, Any]) -> None:
    with transaction.atomic(durable=True):
        change_policy(tenant.id, wanted, caller=PLATFORM)


def test_two_changes_of_a_policy_at_once_lose_none(racers: Racers) -> None:
    """A hundred rounds: both stand, each with its version, event and audit row."""
    tenant = TenantFactory.create()
    rounds = 100

    for n in range(1, rounds + 1):
        got = racers.at_once(
            [
                partial(change, tenant, {"identity_daily_send_cap": n}),
                partial(change, tenant, {"abuse": {"bounce_rate_pause": n / 1000}}),
            ]
        )
        assert got == [None, None]
        tenant.refresh_from_db()
        assert tenant.policy == {
            "identity_daily_send_cap": n,
            "abuse": {"bounce_rate_pause": n / 1000},
        }
        assert tenant.policy_version == 2 * n

    events = Event.objects.filter(type="tenant.policy_updated").order_by("seq")
    versions = [event.payload["data"]["policy_version"] for event in events]
    assert versions == list(range(1, 2 * rounds + 1))
    assert AuditRow.objects.filter(action="tenant.policy_update").count() == 2 * rounds


def test_eight_changes_at_once_stand_or_are_told_to_repeat(racers: Racers) -> None:
    tenant = TenantFactory.create()
    fields = (
        *("identity_daily_send_cap", "tenant_daily_send_cap", "max_recipients"),
        *("link_ttl_hours", "webhook_text_bytes"),
    )
    changed = 0

    for n in range(1, 26):
        got = racers.at_once([partial(change, tenant, {f: n}) for f in fields])
        tenant.refresh_from_db()
        stood = [f for f, result in zip(fields, got, strict=True) if result is None]
        assert {f: tenant.policy[f] for f in stood} == dict.fromkeys(stood, n)
        refused = [result for result in got if result is not None]
        assert {getattr(r, "code", r) for r in refused} <= {"unavailable"}
        changed += len(stood)
        assert tenant.policy_version == changed


def test_one_slug_asked_for_at_once_makes_one_tenant(racers: Racers) -> None:
    for n in range(20):
        new = NewTenant(slug=f"acme-{n}", name="Acme", mode=TenantMode.LIVE)
        got = racers.at_once([partial(make_tenant, new)] * 8)

        assert sum(isinstance(result, Tenant) for result in got) == 1
        assert sum(isinstance(result, SlugTaken) for result in got) == 7


def test_suffixes_that_look_alike_asked_for_at_once_make_one_tenant(
    racers: Racers,
) -> None:
    for n in range(20):
        slugs = (f"m{n}x", f"rn{n}x")
        got = racers.at_once(
            [
                partial(
                    make_tenant, NewTenant(slug=slug, name="A", mode=TenantMode.LIVE)
                )
                for slug in slugs
            ]
        )

        assert sorted(type(result).__name__ for result in got) == (
            ["SuffixTaken", "Tenant"]
        )
    assert issubclass(SuffixTaken, PylotaError)


def test_no_send_is_accepted_once_a_suspension_has_committed(
    racers: Racers, deadlocks: Deadlocks
) -> None:
    """Submits of three mailboxes race suspensions and resumptions, in any order."""
    tenant = TenantFactory.create()
    senders = [
        address.identity
        for address in AddressFactory.create_batch(3, identity__tenant=tenant)
    ]
    secret = create_key(name="t", tenant=tenant).secret
    answers: list[tuple[int, str]] = []

    def submit(sender: Identity, key: str) -> None:
        answer = ApiClient(secret, sender.id).send(booking(), key=key)
        accepted = answer.status_code == 202
        answers.append((answer.status_code, "" if accepted else code_of(answer)))

    for n in range(60):
        suspend, resume = (
            partial(f, tenant.id) for f in (suspend_tenant, resume_tenant)
        )
        got = racers.at_once(
            [
                suspend,
                *[partial(submit, sender, f"{n}-{sender.id}") for sender in senders],
                *([resume, suspend] if n % 3 == 0 else []),
            ]
        )
        assert not [one for one in got if isinstance(one, Exception)]
        suspend()
        suspended_at = Tenant.objects.get(id=tenant.id).suspended_at
        late = Message.objects.filter(tenant=tenant, received_at__gt=suspended_at)
        assert not late.exists()
        assert set(
            Identity.objects.filter(tenant=tenant).values_list("status", "pause_reason")
        ) == {("paused", "tenant_suspended")}
        resume()
    racers.close()

    assert deadlocks.count() == 0
    assert set(answers) == {(202, ""), (403, "tenant_suspended")}
    connection.close()


@pytest.mark.parametrize("into_a_thread", [False, True])
@pytest.mark.parametrize(
    ("stop", "refusal"),
    [
        (lambda i: suspend_tenant(i.tenant_id), (403, "tenant_suspended")),
        (lambda i: pause_identity(i.id), (409, "identity_paused")),
    ],
)
def test_a_stop_between_the_policy_and_the_lock_refuses_the_send(
    racers: Racers, stop: Any, refusal: tuple[int, str], into_a_thread: bool
) -> None:
    sender = AddressFactory.create().identity
    asked = received(sender)
    more = {"thread_id": asked.thread.public_id} if into_a_thread else {}
    client = ApiClient(create_key(name="t", tenant=sender.tenant).secret, sender.id)

    def stop_it() -> None:
        points.planted.clear()
        racers.at_once([partial(stop, sender)])

    points.planted["submit.second_look"] = stop_it

    answer = client.send(booking(**more))

    assert (answer.status_code, code_of(answer)) == refusal
    assert not Message.objects.filter(direction="outbound").exists()
    assert Allowance.objects.get(tenant=sender.tenant).held == 0
    assert not Counter.objects.filter(value__gt=0).exists()


def test_changes_of_all_kinds_and_submits_at_once_never_deadlock(
    racers: Racers, deadlocks: Deadlocks
) -> None:
    """Whatever a change names, its locks come in one order; all of it is answered."""
    sender = AddressFactory.create().identity
    path = f"/v1/tenants/{sender.tenant_id}"
    platform = create_key(name="p").secret
    tenant_key = create_key(name="t", tenant=sender.tenant).secret
    statuses: list[int] = []

    def patch(body: dict[str, Any]) -> None:
        statuses.append(ApiClient(platform, "").patch(path, body).status_code)

    def submit(key: str) -> None:
        ApiClient(tenant_key, sender.id).send(booking(), key=key)

    for n in range(40):
        zone, other = ("Asia/Tokyo", "Europe/Berlin")[:: 1 if n % 2 else -1]
        cap = {"identity_daily_send_cap": 1000 + n}
        got = racers.at_once(
            [
                partial(patch, {"status": "suspended", "timezone": zone, "name": "A"}),
                partial(patch, {"timezone": other, "policy": cap}),
                partial(patch, {"status": "active", "policy": cap, "timezone": other}),
                partial(patch, {"name": f"B{n}", "timezone": zone}),
                *[partial(submit, f"{n}-{k}") for k in range(3)],
            ]
        )
        assert not [one for one in got if isinstance(one, Exception)]
    racers.close()

    assert deadlocks.count() == 0
    assert set(statuses) == {200}
    connection.close()
