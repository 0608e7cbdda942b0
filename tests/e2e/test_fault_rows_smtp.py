"""Relays that drop, stall, throttle and drip; and a store of objects that goes away."""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from django.conf import settings
from django.db.models import F, Max

from delivery.models import Attempt, OutboundState
from mailboxes.models import Message
from quota.models import Allowance
from tests.support.processes import Processes, until
from tests.support.sending import Client, copies_at, settle, status_of
from tests.support.smtp_script import Script
from tests.support.smtp_server import SmtpServer
from tests.support.times import CLAIM, SHORT

pytestmark = pytest.mark.django_db(transaction=True)

DEADLINE = 0.8 * CLAIM


def used_by(sender: Client) -> int:
    """Return how many units the sender's tenant has been charged."""
    tenant_id = sender.account.tenant_id
    return Allowance.objects.get(tenant_id=tenant_id, feature="sends").used


def is_submitted(message_id: str) -> bool:
    return status_of(message_id) == "submitted"


def test_a_relay_that_reads_the_dot_and_leaves_is_never_called_again(
    crew: Processes, relay: SmtpServer, sender: Client
) -> None:
    """R08: closed without an answer, then reset; one message at the relay each."""
    relay.follow(Script(connections=[{"dot": "drop"}, {"dot": "reset"}]))
    crew.worker(**SHORT)
    messages = sender.accept_many(["closed", "reset"])
    copies = settle(sender, relays=[relay])
    for message in Message.objects.filter(public_id__in=messages):
        assert message.status == "uncertain"
        assert message.reason == "transport_connection_lost"
    assert list(copies.values()) == [1, 1]

    # And not in a while either: later sends leave, these two do not
    sender.accept_many(f"later-{n}" for n in range(3))
    settle(sender, relays=[relay])
    assert len(relay.connections) == 5


def test_an_answer_that_comes_too_late_is_no_reason_to_send_again(
    crew: Processes, relay: SmtpServer, sender: Client
) -> None:
    """R41: the dot answered after 70 s, with a limit of 60; here 2 s with 1.2."""
    relay.follow(Script(always={"dot": "late:2;250 2.0.0 queued"}))
    crew.worker(**SHORT)
    message = sender.accept("answered-late")
    copies = settle(sender, relays=[relay])
    stored = Message.objects.get(public_id=message)
    assert (stored.status, stored.reason) == ("uncertain", "transport_timeout")
    assert sum(copies.values()) == 1
    assert len(relay.connections) == 1


def test_a_throttled_dot_is_tried_again_and_counts_when_it_is_taken(
    crew: Processes, relay: SmtpServer, sender: Client
) -> None:
    """R11: ``454 4.7.0 Throttling`` to the dot; queued, then sent once."""
    relay.follow(Script(connections=[{"dot": "454 4.7.0 Throttling"}]))
    crew.worker(**{**SHORT, "PM_BACKOFF_SCALE": 0.03})
    message = sender.accept("throttled")
    until(
        lambda: OutboundState.objects.filter(
            message__public_id=message, backoff_n=1, retry_at__isnull=False
        ).exists(),
        what="the back-off",
    )
    assert status_of(message) == "queued"
    assert used_by(sender) == 0
    assert copies_at(relay) == {}

    copies = settle(sender, relays=[relay])
    assert status_of(message) == "submitted"
    assert sum(copies.values()) == used_by(sender) == 1
    assert len(relay.connections) == 2


def test_ten_dropped_connections_are_ten_back_offs_and_then_one_mail(
    crew: Processes, relay: SmtpServer, sender: Client
) -> None:
    """R09: dropped 15 ms after connect, ten times; sent at the eleventh."""
    relay.follow(Script(connections=[{"connect": "late:0.015;drop"}] * 10))
    crew.worker(**{**SHORT, "PM_BACKOFF_SCALE": 0.0001})
    message = sender.accept("dropped")
    copies = settle(sender, relays=[relay], seconds=30)
    assert status_of(message) == "submitted"
    assert sum(copies.values()) == 1
    results = list(
        Attempt.objects.filter(message__public_id=message)
        .order_by("n")
        .values_list("result", flat=True)
    )
    assert results == ["retry"] * 10 + ["accepted"]


def test_a_relay_that_swallows_or_drips_stops_nobody_else_s_mail(
    crew: Processes, account: Callable[[SmtpServer], Client]
) -> None:
    """Row 39, at a tenth of its times and a twentieth of its 1,000 messages."""
    stalls = [{"connect": "hang"}, {"greeting": "drip"}] * 500
    with (
        SmtpServer(Script(connections=stalls, drip_seconds=0.6)) as stalled,
        SmtpServer() as healthy,
    ):
        stuck, other = account(stalled), account(healthy)

        # Given a claim whose worker died, and 50 messages for a relay that stalls
        doomed = crew.worker(threads=1, planted="deliver.claimed=kill", **SHORT)
        lost = other.accept("lost-with-its-worker")
        until(lambda: not doomed.is_alive, what="the worker's death")
        stuck.accept_many(f"stuck-{n}" for n in range(50))
        worker = crew.worker(threads=16, PM_RING_AHEAD=20, **SHORT)
        until(lambda: stalled.open_now >= 2, what="calls to the relay that stalls")

        # When another domain sends, then its mail leaves all the same
        for n in range(5):
            started = time.monotonic()
            message = other.accept(f"healthy-{n}")
            until(
                partial(is_submitted, message),
                seconds=10,
                what="the other domain's mail",
            )
            assert time.monotonic() - started < 10
            assert OutboundState.objects.filter(rung_at__isnull=False).count() <= 20

        # And the alarm ran beside it
        until(lambda: status_of(lost) == "uncertain", what="the end of the lost claim")

        # And each call ended at its deadline
        ended = Attempt.objects.filter(finished_at__isnull=False)
        longest = ended.aggregate(took=Max(F("finished_at") - F("claimed_at")))["took"]
        assert longest.total_seconds() < DEADLINE + 1

        # And once the relay is well, all of it is sent, once
        stalled.follow(Script())
        settle(stuck, other, relays=[stalled, healthy], seconds=40)
        assert worker.is_alive
        found = Message.objects.filter(tenant_id=stuck.account.tenant_id)
        assert set(found.values_list("status", flat=True)) == {"submitted"}


def test_while_the_store_of_objects_is_away_nothing_is_claimed(
    crew: Processes, relay: SmtpServer, sender: Client
) -> None:
    """Row 40, with 100 due: no claim, none uncertain; all sent when it is back."""
    sender.accept_many(f"stored-{n}" for n in range(100))
    objects = Path(settings.PM_DATA_DIR) / "objects"
    away = objects.rename(objects.with_name("objects.away"))
    objects.write_text("not a folder")
    try:
        crew.worker(threads=8, **{**SHORT, "PM_BACKOFF_SCALE": 0.05})
        until(
            lambda: OutboundState.objects.filter(backoff_n__gt=0).count() == 100,
            what="a back-off of every send",
        )
        assert not Attempt.objects.exists()
    finally:
        objects.unlink()
        away.rename(objects)

    copies = settle(sender, relays=[relay], seconds=40)
    assert set(Message.objects.values_list("status", flat=True)) == {"submitted"}
    assert sum(copies.values()) == 100
