"""Worker processes: rung or not, ended, killed or cut off, each message once."""

import signal
import sys
import time
from collections.abc import Iterator

import pytest
from django.db import connection, transaction

from core.clock import database_now
from delivery.models import Attempt, OutboundState, ProviderEvent
from mailboxes.statuses import MessageStatus, TenantMode
from outbound import bell, claims
from tests.factories import QueuedMessageFactory, ThreadFactory
from tests.support.processes import Processes, until
from tests.support.queued import (
    assert_each_was_sent_once,
    queue,
    relay_answering,
    statuses,
    thread_with_relay,
    wait_for,
    wait_for_claims,
)
from tests.support.smtp_script import Script
from tests.support.smtp_server import SmtpServer

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def relay() -> Iterator[SmtpServer]:
    with relay_answering() as found:
        yield found


def test_a_message_that_nobody_rang_for_is_sent_once(
    processes: Processes, relay: SmtpServer
) -> None:
    # Given messages whose web process died between its commit and the bell
    messages = queue(20, thread_with_relay(relay))

    processes.worker()

    wait_for(MessageStatus.SUBMITTED, 20)
    assert_each_was_sent_once(relay, messages)


def test_the_bell_wakes_an_idle_worker_within_a_fraction_of_a_second(
    processes: Processes, relay: SmtpServer
) -> None:
    processes.worker()
    thread = thread_with_relay(relay)
    took = []

    for number in range(1, 6):
        messages = queue(1, thread)
        bell.ring()
        began = time.monotonic()
        wait_for_claims(number)
        took.append(time.monotonic() - began)
        wait_for(MessageStatus.SUBMITTED, number)
        assert len(messages) == 1

    # a look once a second would take half a second on average
    assert sorted(took)[2] < 0.4


def test_a_bell_before_the_commit_finds_nothing_and_a_rollback_sends_nothing(
    processes: Processes, relay: SmtpServer
) -> None:
    # Given a worker, a submit held for a second before its commit, and one that fails
    worker = processes.worker()
    thread = thread_with_relay(relay)
    failed = ""
    with transaction.atomic():
        [held] = queue(1, thread)
        bell.ring()
        time.sleep(1)
    with transaction.atomic():
        failed = queue(1, thread)[0].public_id
        bell.ring()
        transaction.set_rollback(True)

    # Then the first is sent once, the second never, and no row was missed
    wait_for(MessageStatus.SUBMITTED, 1)
    bell.ring()
    assert_each_was_sent_once(relay, [held])
    assert failed not in worker.output
    assert "failed" not in worker.output
    assert "Traceback" not in worker.output


def test_a_sigterm_lets_calls_end_and_begins_no_other(
    processes: Processes, relay: SmtpServer
) -> None:
    """Row 42: calls in flight, and tasks that wait."""
    # Given a slow relay, four calls in flight, and eight more messages waiting
    relay.follow(Script(always={"dot": "late:2"}))
    messages = queue(12, thread_with_relay(relay))
    worker = processes.worker(threads=8)
    relay.wait_until(lambda: relay.open_now >= 2)
    until(lambda: Attempt.objects.count() >= 2, what="calls in flight")

    # When the worker is asked to end
    worker.signal(signal.SIGTERM)
    time.sleep(0.3)
    begun = Attempt.objects.count()
    worker.process.wait(timeout=20)

    # Then the calls in flight were recorded, no other began, and nothing is in doubt
    assert Attempt.objects.count() == begun < 12
    assert statuses() == {
        MessageStatus.SUBMITTED: begun,
        MessageStatus.QUEUED: 12 - begun,
    }
    assert not OutboundState.objects.filter(claim_token__isnull=False).exists()

    # And another worker sends the rest
    relay.follow(Script())
    processes.worker(threads=8)
    wait_for(MessageStatus.SUBMITTED, 12)
    assert_each_was_sent_once(relay, messages)


def test_an_idle_worker_ends_soon(processes: Processes) -> None:
    assert processes.worker().end(seconds=8) < 8


def test_killed_backends_cost_no_thread_its_connection_for_good(
    processes: Processes, relay: SmtpServer
) -> None:
    # Given a worker whose threads have all worked
    thread = thread_with_relay(relay)
    worker = processes.worker(threads=4)
    messages = queue(12, thread)
    wait_for(MessageStatus.SUBMITTED, 12)

    # When all of its backends are killed once
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        assert cursor.fetchone()[0] >= 3

    # Then later messages are sent as before
    messages += queue(30, thread)
    wait_for(MessageStatus.SUBMITTED, 42)
    assert_each_was_sent_once(relay, messages)
    assert worker.is_alive


def test_a_full_pool_does_not_stop_the_claim_alarm(
    processes: Processes,
) -> None:
    # Given a claim whose worker is gone, and a worker whose only thread hangs in a call
    with relay_answering(greeting="hang") as silent:
        thread = thread_with_relay(silent)
        [lost] = queue(1, thread)
        assert claims.claim(lost.public_id) is not None
        [hanging] = queue(1, thread)
        processes.worker(
            threads=1,
            PM_CLAIM_SECONDS=3,
            PM_ALARM_SECONDS=0.5,
            PM_SMTP_CONNECT_SECONDS=60,
        )
        silent.wait_until(lambda: silent.open_now == 1)

        # Then the alarm ends the lost claim all the same
        wait_for(MessageStatus.UNCERTAIN, 1, seconds=8)
        lost.refresh_from_db()
        assert lost.status == MessageStatus.UNCERTAIN
        assert lost.reason == "transport_connection_lost"
        hanging.refresh_from_db()
        assert hanging.status == MessageStatus.QUEUED


def test_one_dead_relay_does_not_hold_up_anothers_mail(
    processes: Processes, relay: SmtpServer
) -> None:
    # Given 150 messages on a relay that swallows packets
    with relay_answering(greeting="hang") as silent:
        dead = thread_with_relay(silent)
        queue(150, dead)
        processes.worker(
            threads=8, PM_CLAIM_SECONDS=5, PM_ALARM_SECONDS=0.5, PM_RING_AHEAD=50
        )
        silent.wait_until(lambda: silent.open_now >= 2)

        # When another domain's message comes
        began = time.monotonic()
        messages = queue(1, thread_with_relay(relay))
        bell.ring()

        # Then it leaves within ten seconds, and the broker holds no more than it may
        wait_for(MessageStatus.SUBMITTED, 1, seconds=10)
        assert time.monotonic() - began < 10
        rung = OutboundState.objects.filter(rung_at__isnull=False)
        assert rung.count() <= 50
        assert silent.most_open <= 4
        assert relay.copies.total() == len(messages) == 1

        # And calls that hung end at their deadline, as tries that sent nothing
        until(
            lambda: Attempt.objects.filter(result="retry").exists(),
            what="an end of a call that hangs",
        )
        assert statuses()[MessageStatus.UNCERTAIN] == 0


def test_a_worker_with_a_beat_thread_publishes_its_schedule(
    processes: Processes, relay: SmtpServer
) -> None:
    worker = processes.worker(arguments=("--beat-thread",), PM_ALARM_SECONDS=1)

    until(
        lambda: {"outbound.sweep_claims", "outbound.dispatch_due"} <= {*worker.tasks},
        what="both alarms by beat",
    )


def test_what_the_simulator_says_later_is_applied_by_the_worker(
    processes: Processes,
) -> None:
    # Given a test tenant's messages to two of the simulator's scripts
    thread = ThreadFactory.create(identity__tenant__mode=TenantMode.TEST)
    for name in ("delivered", "bounce"):
        QueuedMessageFactory.create(
            thread=thread, recipients=(f"{name}@simulator.invalid",)
        )

    # When a worker runs
    worker = processes.worker()

    # Then each is submitted, and what is said a second later comes as an event
    wait_for(MessageStatus.DELIVERED, 1)
    wait_for(MessageStatus.BOUNCED, 1)
    applied = [task for task in worker.tasks if task.startswith("delivery.apply_event")]
    assert len(applied) == ProviderEvent.objects.filter(state="applied").count() == 2


def test_a_message_in_its_back_off_is_not_called_by_an_old_ring(
    processes: Processes,
) -> None:
    """Row 38, through a worker process."""
    # Given a message that its relay has put off
    with relay_answering(mail="451 4.3.0 later") as busy:
        [message] = queue(1, thread_with_relay(busy))
        processes.worker(PM_REDISPATCH_SECONDS=1)
        wait_for_claims(1)
        until(
            lambda: OutboundState.objects.filter(retry_at__isnull=False).exists(),
            what="the back-off",
        )

        # When the same ring comes again and again
        start = processes.folder / "start"
        start.touch()
        command = [sys.executable, "-m", "tests.support.rung", str(start)]
        again = processes.run("rung", [*command, *[message.public_id] * 5], {})
        assert again.process.wait(timeout=30) == 0

        # Then the relay saw one connection, and the row waits as it did
        assert len(busy.connections) == 1
        row = OutboundState.objects.get()
        assert row.retry_at is not None
        assert row.dispatch_at == row.retry_at > database_now()
