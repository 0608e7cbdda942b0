"""The accountant finds what is wrong: one that cannot fail would prove nothing."""

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from core.clock import database_now
from core.database import execute
from delivery.models import Delivery, OutboundState
from delivery.statuses import DeliveryStatus
from mailboxes.models import Event, Message
from mailboxes.statuses import EventOwner, MessageStatus, Operation
from outbound.models import LedgerEntry
from quota.models import Allowance, Hold
from tests.factories import QueuedMessageFactory, key_hash_of
from tests.support.database import database_url
from tests.support.invariants import Copies, books, broken, unsettled

pytestmark = pytest.mark.django_db(transaction=True)

ONE_COPY = {("k-1", "jo@example.net"): 1}


@pytest.fixture
def direct(sent: Message) -> Iterator[psycopg.Connection[Any]]:
    """The tenant's books."""
    with books(database_url(), [sent.tenant_id]) as connection:
        yield connection


@pytest.fixture
def sent(db: None) -> Message:
    """A message that was accepted, sent, charged and announced as it should be."""
    message = QueuedMessageFactory.create()
    LedgerEntry.objects.create(
        identity_id=message.identity_id,
        key_hash=key_hash_of("k-1"),
        tenant_id=message.tenant_id,
        fingerprint="f",
        operation=Operation.SEND,
        message_id=message.public_id,
        response={},
    )
    OutboundState.objects.all().delete()
    Delivery.objects.update(status=DeliveryStatus.SUBMITTED, charged_at=database_now())
    Hold.objects.all().delete()
    Allowance.objects.update(used=1, held=0)
    Message.objects.update(status=MessageStatus.SUBMITTED)
    announce(message, seq=1)
    return message


def announce(message: Message, *, seq: int) -> None:
    Event.objects.create(
        id=f"evt_{seq:026d}",
        tenant_id=message.tenant_id,
        owner_kind=EventOwner.MAILBOX,
        owner_id=message.identity_id,
        seq=seq,
        type="message.sent",
        payload={"data": {"message": {"id": message.public_id}}},
        occurred_at=database_now(),
    )


def test_an_honest_send_breaks_nothing(
    sent: Message, direct: psycopg.Connection[Any]
) -> None:
    assert broken(direct, {"k-1": sent.public_id}, ONE_COPY) == []


@pytest.mark.parametrize(
    ("copies", "said"),
    [
        ({}, "I3: k-1 is submitted for jo@example.net with 0 copies"),
        ({("k-1", "jo@example.net"): 2}, "I1: 2 copies of k-1"),
        ({**ONE_COPY, ("k-2", "jo@example.net"): 1}, "I3: a copy of k-2"),
    ],
)
def test_copies_that_do_not_fit_are_found(
    sent: Message, direct: psycopg.Connection[Any], copies: Copies, said: str
) -> None:
    breaches = broken(direct, {"k-1": sent.public_id}, copies)
    assert any(breach.startswith(said) for breach in breaches), breaches


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda _: Message.objects.update(status="queued"), "I2: k-1 is queued"),
        (lambda _: Message.objects.update(status="queued"), "without a queue row"),
        (lambda _: Allowance.objects.update(held=1), "whose held is not"),
        (lambda _: Allowance.objects.update(used=2), "whose used is not"),
        (lambda _: Delivery.objects.update(charged_at=None), "charged and not"),
        (lambda _: Event.objects.all().delete(), "not announced as sent"),
        (lambda _: Event.objects.update(seq=2), "without a gap"),
        (lambda message: announce(message, seq=2), "announced twice"),
        (lambda _: LedgerEntry.objects.all().delete(), "no key stands for"),
        (
            lambda _: Delivery.objects.update(status="failed"),
            "I3: k-1 is failed for jo@example.net with 1 copies",
        ),
    ],
)
def test_rows_that_do_not_fit_are_found(
    sent: Message,
    direct: psycopg.Connection[Any],
    damage: Callable[[Message], object],
    said: str,
) -> None:
    damage(sent)
    breaches = broken(direct, {"k-1": sent.public_id}, ONE_COPY)
    assert any(said in breach for breach in breaches), breaches


def test_an_attempt_left_open_and_a_hold_left_behind_are_found(
    sent: Message, direct: psycopg.Connection[Any]
) -> None:
    execute(
        "INSERT INTO holds (id, tenant_id, feature, ref, units, expires_at)"
        " VALUES ('hld_' || repeat('0', 26), %(tenant)s, 'sends', %(ref)s, 1, now())",
        {"tenant": sent.tenant_id, "ref": sent.public_id},
    )
    execute(
        "INSERT INTO attempts (message_pk, tenant_id, n, provider, claim_token,"
        " claimed_at, phase, from_address) VALUES (%(message)s, %(tenant)s, 1, 'smtp',"
        " gen_random_uuid(), now(), 'sending', 'a@b.example')",
        {"tenant": sent.tenant_id, "message": sent.key},
    )
    breaches = "\n".join(broken(direct, {"k-1": sent.public_id}, ONE_COPY))
    assert "a hold of a message that is not queued" in breaches
    assert "whose held is not" in breaches
    assert "an attempt without an end" in breaches


def test_the_books_of_a_tenant_show_nobody_else_s_rows(
    sent: Message, direct: psycopg.Connection[Any]
) -> None:
    stranger = QueuedMessageFactory.create()
    assert stranger.tenant_id != sent.tenant_id
    assert unsettled(direct) == 0
    assert broken(direct, {"k-1": sent.public_id}, ONE_COPY) == []
