"""However often a message is rung, and by how many processes: one call."""

import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from django.db import connection
from pytest_django import Settings

from delivery.models import Attempt, OutboundState
from mailboxes.models import Event
from mailboxes.statuses import MessageStatus
from outbound import deliver, dispatch, slots
from outbound.alarms import sweep_claims
from outbound.claims import claim
from outbound.slots import Slots
from tests.support.processes import Processes, until
from tests.support.queued import (
    assert_each_was_sent_once,
    queue,
    relay_answering,
    statuses,
    thread_with_relay,
)
from tests.support.scripted import ScriptedTransport
from tests.support.smtp_server import SmtpServer

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def relay() -> Iterator[SmtpServer]:
    with relay_answering() as found:
        yield found


def at_once(*work: Callable[[], object]) -> None:
    """Run all of this at the same moment, each in a thread with its own connection."""
    barrier = threading.Barrier(len(work))
    errors: list[BaseException] = []

    def run(one: Callable[[], object]) -> None:
        barrier.wait()
        try:
            one()
        except BaseException as error:
            errors.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(one,)) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_eight_worker_processes_on_one_message_make_one_transaction(
    processes: Processes, relay: SmtpServer
) -> None:
    # Given eight processes that have got the same rings, as from a broker gone mad
    messages = queue(6, thread_with_relay(relay))
    start = processes.folder / "start"
    ids = [message.public_id for message in messages]
    workers = [
        processes.run(
            "rung",
            [sys.executable, "-m", "tests.support.rung", str(start), *ids],
            {"PM_SMTP_PARALLEL": 12, "PM_WORKER_THREADS": 48},
        )
        for _ in range(8)
    ]
    until(
        lambda: all(worker.output == "waiting\n" for worker in workers),
        seconds=60,
        what="eight processes that wait",
    )

    # When they all begin at the same moment
    start.touch()
    for worker in workers:
        worker.process.wait(timeout=60)

    # Then each message was one SMTP transaction
    assert_each_was_sent_once(relay, messages)


@pytest.mark.parametrize("copies", [2, 5])
def test_a_task_delivered_several_times_at_once_is_one_call(
    copies: int, monkeypatch: pytest.MonkeyPatch, relay: SmtpServer
) -> None:
    """Row 6, without a broker: the task runs several times at once."""
    transport = ScriptedTransport()
    monkeypatch.setattr(deliver, "transport_for", lambda claim: transport)
    roomy = Slots(64, places=64)
    monkeypatch.setattr(slots, "process_slots", lambda: roomy)
    messages = queue(4, thread_with_relay(relay))

    at_once(
        *(
            partial(deliver.deliver, message.public_id)
            for message in messages
            for _ in range(copies)
        )
    )

    assert len(transport.calls) == Attempt.objects.count() == 4
    assert statuses() == {MessageStatus.SUBMITTED: 4}


def test_three_dispatch_alarms_at_once_ring_each_row_once(
    monkeypatch: pytest.MonkeyPatch, relay: SmtpServer
) -> None:
    """Row 14: three dispatch alarms."""
    # Given 40 due messages
    rung: list[str] = []
    monkeypatch.setattr(dispatch, "_send", lambda queue, id_: rung.append(id_))
    queue(40, thread_with_relay(relay))

    # When three alarms run at once, five times over
    for _ in range(5):
        at_once(*[dispatch.dispatch_due] * 3)

    # Then each was rung once
    assert len(rung) == len(set(rung)) == 40


def test_dispatchers_at_once_never_ring_more_than_the_limit(
    monkeypatch: pytest.MonkeyPatch, relay: SmtpServer, settings: Settings
) -> None:
    settings.PM_RING_AHEAD = 7
    rung: list[str] = []
    monkeypatch.setattr(dispatch, "_send", lambda queue, id_: rung.append(id_))
    queue(30, thread_with_relay(relay))

    at_once(*[dispatch.dispatch_due] * 6)

    assert len(rung) == 7
    assert OutboundState.objects.filter(rung_at__isnull=False).count() == 7


def test_three_claim_alarms_at_once_make_one_transition(
    settings: Settings, relay: SmtpServer
) -> None:
    """Row 14: three claim alarms."""
    # Given a claim that ran out
    settings.PM_CLAIM_SECONDS = 0
    message = queue(1, thread_with_relay(relay))[0]
    assert claim(message.public_id) is not None

    # When three alarms find it
    at_once(*[sweep_claims] * 3)

    # Then it turned uncertain once
    assert statuses() == {MessageStatus.UNCERTAIN: 1}
    events = Event.objects.filter(type="message.uncertain")
    assert events.count() == 1
