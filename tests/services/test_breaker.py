"""A way out that leaves calls in doubt is closed, tried by one, and opened again."""

from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from core.clock import database_now
from delivery.models import OutboundState
from domains.models import Domain
from mailboxes.models import Alert, Identity, Message, Thread
from mailboxes.statuses import MessageStatus
from outbound import claims
from outbound.alarms import sweep_claims
from outbound.models import Breaker
from outbound.transports.base import (
    Rejected,
    RejectReason,
    RetryClass,
    RetryLater,
    TransportResult,
    UncertainReason,
    Unknown,
)
from tests.factories import AddressFactory, ThreadFactory
from tests.services.conftest import assert_units_add_up
from tests.support.bulk_queue import queue_in_bulk
from tests.support.scripted import ScriptedTransport, work

pytestmark = pytest.mark.django_db
Later = Callable[[float], None]

LOST = Unknown(UncertainReason.CONNECTION_LOST, "reset")
BUSY = RetryLater(RetryClass.RELAY, "451")
NO = Rejected(RejectReason.PROVIDER_VALIDATION, "550", "no")
NOT_CALLED = RetryLater(RetryClass.RELAY, "claim_too_old")
NOT_THERE = RetryLater(RetryClass.RELAY, "connect_failed")


@pytest.fixture
def mail(identity: Identity) -> Iterator[str]:
    """As many queued messages of one domain as are asked for."""
    return (queue_in_bulk(identity, 1)[0] for _ in iter(int, 1))


@pytest.fixture
def opened(mail: Iterator[str], scripted: ScriptedTransport) -> Breaker:
    """A breaker that three unknown outcomes have opened."""
    for _ in range(3):
        call(mail, scripted, LOST)
    scripted.calls.clear()
    return Breaker.objects.get()


def call(
    mail: Iterator[str], scripted: ScriptedTransport, answer: TransportResult
) -> str:
    """Let a new message be called for, with this answer; return its id."""
    message = next(mail)
    scripted.answers = [answer]
    assert work(message, scripted) is not None
    return message


def row(message_id: str) -> OutboundState:
    return OutboundState.objects.get(message__public_id=message_id)


def status(message_id: str) -> str:
    return Message.objects.values_list("status", flat=True).get(public_id=message_id)


def test_three_in_a_row_close_the_way_and_page_somebody(
    mail: Iterator[str], scripted: ScriptedTransport
) -> None:
    for unknowns in (1, 2):
        call(mail, scripted, LOST)
        assert not Alert.objects.exists()
        assert Breaker.objects.get().unknowns == unknowns
    call(mail, scripted, LOST)

    domain = Domain.objects.get()
    standing = Breaker.objects.get()
    assert (standing.provider, standing.scope) == ("smtp", domain.id)
    assert (standing.unknowns, standing.openings) == (3, 1)
    assert standing.probe_at is not None
    wait = standing.probe_at - database_now()
    assert timedelta(seconds=295) < wait <= timedelta(seconds=300)
    alert = Alert.objects.get()
    assert (alert.name, alert.severity) == ("transport_breaker_open", "page")
    assert (alert.subject, alert.resolved_at) == (f"smtp:{domain.id}", None)


def test_a_message_behind_it_waits_unclaimed_with_its_hold_and_no_thread(
    mail: Iterator[str], scripted: ScriptedTransport, opened: Breaker
) -> None:
    message = next(mail)
    stored = Message.objects.get(public_id=message)
    Thread.objects.filter(pk=stored.thread_id).update(
        lock_owner=message, lock_until=database_now()
    )

    assert work(message, scripted) is None

    waiting = row(message)
    assert scripted.calls == []
    assert status(message) == MessageStatus.QUEUED
    assert stored.attempts.count() == 0
    assert waiting.claim_token is None
    assert waiting.dispatch_at == waiting.retry_at
    assert waiting.retry_at is not None
    assert opened.probe_at is not None
    assert timedelta(0) <= waiting.retry_at - opened.probe_at < timedelta(seconds=31)
    assert Thread.objects.get(pk=stored.thread_id).lock_owner is None
    assert_units_add_up(stored)


@pytest.mark.parametrize("answer", [BUSY, NO, None], ids=["retry", "no", "accepted"])
def test_any_definite_answer_in_between_begins_the_count_anew(
    mail: Iterator[str],
    scripted: ScriptedTransport,
    answer: TransportResult | None,
) -> None:
    for _ in range(2):
        call(mail, scripted, LOST)
    scripted.answers = [answer] if answer else []
    work(next(mail), scripted)
    assert not Breaker.objects.exists()

    for _ in range(2):
        call(mail, scripted, LOST)

    assert Breaker.objects.get().openings == 0


@pytest.mark.parametrize("nothing", [NOT_CALLED, NOT_THERE], ids=["no call", "away"])
def test_a_call_that_was_not_made_or_not_answered_counts_neither_way(
    mail: Iterator[str], scripted: ScriptedTransport, nothing: TransportResult
) -> None:
    for answer in (LOST, nothing, LOST, nothing, LOST):
        call(mail, scripted, answer)

    assert Breaker.objects.get().openings == 1


def test_a_relay_that_still_is_away_at_the_probe_stays_closed_to_all_but_the_next(
    mail: Iterator[str], scripted: ScriptedTransport, opened: Breaker, later: Later
) -> None:
    later(301)
    call(mail, scripted, NOT_THERE)

    # Then the way is still closed: a further doubt opens it for twice as long
    assert Breaker.objects.get().openings == 1
    call(mail, scripted, LOST)
    assert Breaker.objects.get().openings == 2
    assert work(next(mail), scripted) is None
    assert Alert.objects.get().resolved_at is None


def test_a_lost_worker_does_not_count(
    mail: Iterator[str], scripted: ScriptedTransport, later: Later
) -> None:
    for _ in range(2):
        call(mail, scripted, LOST)
    lost = claims.claim(next(mail))
    assert lost is not None
    later(301)
    assert sweep_claims() == 1

    claims.record(lost, LOST)  # nor does it when it comes back

    assert Breaker.objects.get().unknowns == 2


@pytest.mark.parametrize("answer", [BUSY, NO, None], ids=["retry", "no", "accepted"])
def test_one_goes_as_a_probe_and_its_definite_answer_closes_it(
    mail: Iterator[str],
    scripted: ScriptedTransport,
    opened: Breaker,
    later: Later,
    answer: TransportResult | None,
) -> None:
    # Given a breaker whose wait is over, and a message that probes
    later(301)
    probe = claims.claim(next(mail))
    assert probe is not None

    # When others come meanwhile, then they wait
    for _ in range(3):
        assert work(next(mail), scripted) is None

    # And when the probe has its answer, the way is open to all
    scripted.answers = [answer] if answer else []
    claims.record(probe, scripted.send(probe.outgoing))
    assert not Breaker.objects.exists()
    assert Alert.objects.get().resolved_at is not None
    for _ in range(3):
        assert work(next(mail), scripted) is not None


def test_a_probe_in_doubt_opens_it_again_for_twice_as_long(
    mail: Iterator[str], scripted: ScriptedTransport, opened: Breaker, later: Later
) -> None:
    waits = []
    for _ in range(6):
        standing = Breaker.objects.get()
        assert standing.probe_at is not None
        waits.append(round((standing.probe_at - database_now()).total_seconds() / 60))
        later(waits[-1] * 60 + 1)
        call(mail, scripted, LOST)

    assert waits == [5, 10, 20, 40, 60, 60]
    assert Alert.objects.get().details["openings"] == 7
    assert Alert.objects.get().resolved_at is None


def test_a_probe_that_made_no_call_leaves_its_right_to_the_next(
    mail: Iterator[str], scripted: ScriptedTransport, opened: Breaker, later: Later
) -> None:
    later(301)
    call(mail, scripted, NOT_CALLED)

    assert Breaker.objects.get().openings == 1
    assert work(next(mail), scripted) is not None
    assert not Breaker.objects.exists()


def test_row_45_the_right_of_a_killed_probe_lapses_with_its_claim(
    mail: Iterator[str], scripted: ScriptedTransport, opened: Breaker, later: Later
) -> None:
    # Given a probe whose worker is killed
    later(301)
    assert claims.claim(next(mail)) is not None

    # When others come before its claim has run out, then they wait
    later(298)
    assert work(next(mail), scripted) is None

    # And after that one of them probes, without a longer wait
    later(3)
    assert sweep_claims() == 1
    assert Breaker.objects.get().openings == 1
    assert work(next(mail), scripted) is not None
    assert not Breaker.objects.exists()


def test_calls_that_were_under_way_neither_close_it_nor_lengthen_the_wait(
    mail: Iterator[str], scripted: ScriptedTransport
) -> None:
    under_way = [claims.claim(next(mail)) for _ in range(2)]
    answers: tuple[TransportResult, ...] = (LOST, NO)
    for _ in range(3):
        call(mail, scripted, LOST)
    before = Breaker.objects.get()

    for claim, answer in zip(under_way, answers, strict=True):
        assert claim is not None
        claims.record(claim, answer)

    after = Breaker.objects.get()
    assert (after.openings, after.probe_at) == (1, before.probe_at)


def test_another_domain_of_the_same_relay_is_not_held_up(
    scripted: ScriptedTransport, opened: Breaker
) -> None:
    other = queue_in_bulk(AddressFactory.create().identity, 1)[0]

    assert work(other, scripted) is not None
    assert status(other) == MessageStatus.SUBMITTED


def test_nobody_waits_behind_it_longer_than_a_day(
    mail: Iterator[str], scripted: ScriptedTransport, opened: Breaker, later: Later
) -> None:
    message = next(mail)
    Message.objects.filter(public_id=message).update(
        received_at=database_now() - timedelta(hours=24) + timedelta(seconds=200)
    )

    assert work(message, scripted) is None

    stored = Message.objects.get(public_id=message)
    assert (stored.status, stored.reason) == ("failed", "quota_exhausted")
    assert scripted.calls == []
    assert_units_add_up(stored)


def test_without_a_breaker_every_call_is_made(
    mail: Iterator[str], scripted: ScriptedTransport, settings: Settings
) -> None:
    settings.PM_BREAKER_SECONDS = 0

    for _ in range(5):
        call(mail, scripted, LOST)

    assert len(scripted.calls) == 5
    assert not Breaker.objects.exists()


def test_a_breaker_that_is_switched_off_lets_go_of_what_it_held(
    mail: Iterator[str],
    scripted: ScriptedTransport,
    opened: Breaker,
    settings: Settings,
) -> None:
    settings.PM_BREAKER_SECONDS = 0

    assert work(next(mail), scripted) is not None


def test_a_way_that_works_costs_a_claim_no_statement_and_no_lock(
    identity: Identity, settings: Settings, scripted: ScriptedTransport
) -> None:
    ThreadFactory.create(identity=identity)
    warm, without, with_one = queue_in_bulk(identity, 3)
    counted = {}
    for message, seconds in ((warm, 0), (without, 0), (with_one, 300)):
        settings.PM_BREAKER_SECONDS = seconds
        with CaptureQueriesContext(connection) as seen:
            claim = claims.claim(message)
        counted[message] = len(seen)
        assert claim is not None
        with CaptureQueriesContext(connection) as recorded:
            claims.record(claim, scripted.send(claim.outgoing))
        about = [q["sql"] for q in recorded if "transport_breakers" in q["sql"]]
        assert len(about) == bool(seconds)  # one DELETE that finds no row

    assert counted[with_one] == counted[without]
