"""Who may not be written to, read from real rows in one statement."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from core.addresses import normalize
from core.clock import database_now
from core.hashing import address_hash
from mailboxes.models import Contact, Identity
from suppressions.models import SendListEntry, Suppression
from suppressions.selectors import filter_facts
from suppressions.statuses import ListDirection, ListKind, SuppressionReason
from tests.factories import IdentityFactory

pytestmark = pytest.mark.django_db

JO, LEE, ANN = "jo@corp.example", "lee@x.example", "ann@y.example"


def suppress(identity: Identity, address: str, **more: Any) -> None:
    Suppression.objects.create(
        tenant=identity.tenant,
        address_hash=address_hash(address),
        address_hint="x***",
        **{"reason": SuppressionReason.HARD_BOUNCE, **more},
    )


def enter(
    identity: Identity,
    entry: str,
    kind: ListKind,
    direction: ListDirection = ListDirection.SEND,
) -> None:
    SendListEntry.objects.create(
        tenant=identity.tenant, direction=direction, kind=kind, entry=entry
    )


def know(identity: Identity, address: str, inbound: int, outbound: int) -> None:
    now = database_now()
    Contact.objects.create(
        identity=identity,
        tenant=identity.tenant,
        address=address,
        domain=address.partition("@")[2],
        first_seen_at=now,
        last_seen_at=now,
        inbound_count=inbound,
        outbound_count=outbound,
    )


def read(identity: Identity, *addresses: str) -> Any:
    return filter_facts(
        addresses,
        tenant_id=identity.tenant_id,
        identity_id=identity.id,
        now=database_now(),
    )


def test_all_of_it_is_one_statement(
    identity: Identity, django_assert_num_queries: Callable[[int], Any]
) -> None:
    suppress(identity, JO)
    enter(identity, "@x.example", ListKind.BLOCK)
    enter(identity, ANN, ListKind.ALLOW)
    know(identity, ANN, 1, 0)

    with django_assert_num_queries(2):  # the clock, and the facts
        facts = read(identity, JO, LEE, ANN)

    assert facts.suppressed == {JO: SuppressionReason.HARD_BOUNCE}
    assert facts.blocked == {"@x.example"}
    assert facts.allowed == {ANN}
    assert facts.known == {ANN}


def test_what_is_another_tenants_or_another_mailboxs_does_not_count(
    identity: Identity,
) -> None:
    other = IdentityFactory.create()
    sibling = IdentityFactory.create(tenant=identity.tenant)
    suppress(other, JO)
    enter(other, JO, ListKind.BLOCK)
    know(sibling, JO, 5, 5)

    facts = read(identity, JO)

    assert (facts.suppressed, facts.blocked, facts.known) == ({}, set(), set())


def test_receive_entries_say_nothing_of_sending(identity: Identity) -> None:
    enter(identity, JO, ListKind.BLOCK, ListDirection.RECEIVE)

    assert read(identity, JO).blocked == frozenset()


def test_a_suppression_counts_until_it_expires(identity: Identity) -> None:
    now = database_now()
    suppress(identity, JO, expires_at=now)
    suppress(identity, LEE, expires_at=now + timedelta(hours=1))

    found = read(identity, JO, LEE, ANN).suppressed
    assert found == {LEE: SuppressionReason.HARD_BOUNCE}


@pytest.mark.parametrize(
    ("inbound", "outbound", "is_known"),
    [(0, 0, False), (1, 0, True), (0, 1, True), (3, 2, True)],
)
def test_mail_in_either_direction_makes_an_address_known(
    identity: Identity, inbound: int, outbound: int, is_known: bool
) -> None:
    know(identity, JO, inbound, outbound)

    assert (JO in read(identity, JO).known) == is_known


@pytest.mark.parametrize(
    ("suppressed", "written"),
    [
        ("User@Example.COM", "user@example.com"),
        ("User@Example.COM", " USER@example.com "),
        ("ana@bücher.example", "ana@xn--bcher-kva.example"),
        ("ana@xn--bcher-kva.example", "Ana@BÜCHER.example."),
    ],
)
def test_r25_a_suppression_holds_for_every_spelling(
    identity: Identity, suppressed: str, written: str
) -> None:
    suppress(identity, normalize(suppressed))

    assert normalize(written) in read(identity, normalize(written)).suppressed


def test_without_recipients_nobody_is_filtered(identity: Identity) -> None:
    assert read(identity).suppressed == {}
