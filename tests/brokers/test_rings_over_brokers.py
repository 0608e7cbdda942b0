"""What a broker repeats or loses: one call for each message all the same."""

import json
import signal
import time
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from core.clock import database_now
from delivery.models import Attempt, OutboundState
from mailboxes.models import Event
from mailboxes.statuses import MessageStatus
from outbound import claims
from tests.support.brokers import Broker
from tests.support.processes import Processes, Running, until
from tests.support.queued import (
    assert_each_was_sent_once,
    queue,
    statuses,
    thread_with_relay,
    wait_for,
)
from tests.support.smtp_script import Script
from tests.support.smtp_server import SmtpServer

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.brokers]


def test_twenty_messages_and_forty_wake_ups_on_four_workers_are_twenty_calls(
    broker: Broker, processes: Processes, relay: SmtpServer
) -> None:
    """R03: twenty messages, all rung at once, four worker processes."""
    # Given 20 queued messages, each rung twice before anybody works
    messages = queue(20, thread_with_relay(relay))
    broker.ring(*(message.public_id for message in messages), times=2)

    # When four worker processes start at once, each with a dispatcher that rings too
    for _ in range(4):
        processes.worker(threads=4, wait=False, CELERY_BROKER_URL=broker.url)

    # Then 20 calls are made in all
    wait_for(MessageStatus.SUBMITTED, 20, seconds=60)
    assert_each_was_sent_once(relay, messages)


def test_one_message_rung_eight_times_on_eight_workers_is_one_call(
    rabbitmq: Broker, processes: Processes, relay: SmtpServer
) -> None:
    # Given eight workers that have started, and a relay slow enough for all to meet
    relay.follow(Script(always={"dot": "late:1"}))
    workers = [
        processes.worker(threads=1, wait=False, CELERY_BROKER_URL=rabbitmq.url)
        for _ in range(8)
    ]
    until(
        lambda: all("ready" in worker.tasks for worker in workers),
        seconds=90,
        what="eight workers",
    )

    # When one message is rung eight times
    messages = queue(1, thread_with_relay(relay))
    rabbitmq.ring(messages[0].public_id, times=8)

    # Then it is one SMTP transaction
    wait_for(MessageStatus.SUBMITTED, 1)
    until(
        lambda: _rings(*workers) >= 8,
        what="eight rings taken",
    )
    assert_each_was_sent_once(relay, messages)
    assert len(relay.connections) == 1


def test_a_task_delivered_five_times_seconds_apart_is_one_call(
    broker: Broker, processes: Processes, relay: SmtpServer
) -> None:
    """Row 6: the same task again, while the call lasts and after it."""
    relay.follow(Script(always={"dot": "late:1"}))
    messages = queue(3, thread_with_relay(relay))
    ids = [message.public_id for message in messages]
    worker = processes.worker(CELERY_BROKER_URL=broker.url)

    for rings in (1, 2, 2):
        broker.ring(*ids, times=rings)
        time.sleep(1)  # the fault: the same ring, later

    wait_for(MessageStatus.SUBMITTED, 3)
    until(lambda: _rings(worker) >= 15, what="every ring")
    assert_each_was_sent_once(relay, messages)


def test_r02_nine_that_wait_in_a_worker_behind_a_slow_send_are_called_once_each(
    broker: Broker, processes: Processes, relay: SmtpServer
) -> None:
    """R02: prefetch 10, one slow send first; Redis gives the nine out again."""
    # Given ten rung messages, of which the first takes its time
    relay.follow(Script(connections=[{"dot": "late:5"}]))
    messages = queue(10, thread_with_relay(relay))
    OutboundState.objects.update(  # only these ten rings: no dispatcher adds any
        dispatch_at=database_now() + timedelta(minutes=5)
    )
    broker.ring(*(message.public_id for message in messages))

    # When a worker of one thread takes all ten at once
    options: dict[str, Any] = {"worker_prefetch_multiplier": 10}
    if broker.scheme == "redis":
        options["broker_transport_options"] = {
            "visibility_timeout": 2,
            "unacked_restore_interval": 1,
            "unacked_restore_throttle": 1,
        }
    worker = processes.worker(
        threads=1, CELERY_BROKER_URL=broker.url, PM_TEST_CELERY=json.dumps(options)
    )
    relay.wait_until(lambda: len(relay.mails) == 1)

    # Then nobody else could take one of the nine, and each is called once
    assert broker.waiting("outbound") == []
    assert statuses() == {MessageStatus.QUEUED: 10}
    wait_for(MessageStatus.SUBMITTED, 10, seconds=30)
    until(lambda: _rings(worker) >= 10, what="every ring")
    assert_each_was_sent_once(relay, messages)
    assert len(relay.connections) == 10


def test_a_visibility_time_out_shorter_than_a_send_is_one_call(
    redis: Broker, processes: Processes, relay: SmtpServer
) -> None:
    """R01, row 6: redelivered by Redis in mid call; the second finds the claim."""
    # Given Redis that redelivers after 2 s, consumers that look for such tasks each
    # second (kombu's default is about 100), and a relay that answers after 15
    relay.follow(Script(always={"dot": "late:15"}))
    messages = queue(1, thread_with_relay(relay))
    options = {
        "visibility_timeout": 2,
        "unacked_restore_interval": 1,
        "unacked_restore_throttle": 1,
    }
    workers = [
        processes.worker(
            CELERY_BROKER_URL=redis.url,
            PM_TEST_CELERY=json.dumps({"broker_transport_options": options}),
        )
        for _ in range(2)
    ]

    # When the task is delivered again during the call
    until(
        lambda: _rings(*workers) >= 2,
        seconds=30,
        what="a second delivery of the task",
    )
    assert statuses() == {MessageStatus.QUEUED: 1}

    # Then it finds the claim
    wait_for(MessageStatus.SUBMITTED, 1)
    assert_each_was_sent_once(relay, messages)


def test_a_worker_killed_in_a_call_leaves_doubt_and_no_second_call(
    broker: Broker, processes: Processes, relay: SmtpServer
) -> None:
    # Given a worker in the middle of a call, the final dot sent
    relay.follow(Script(always={"dot": "hang"}))
    queue(1, thread_with_relay(relay))
    worker = partial(
        processes.worker,
        CELERY_BROKER_URL=broker.url,
        PM_CLAIM_SECONDS=4,
        PM_ALARM_SECONDS=0.5,
    )
    first = worker()
    relay.wait_until(lambda: len(relay.mails) == 1)

    # When it is killed and another one gets its task again
    first.kill()
    worker()

    # Then the message turns uncertain by the alarm, and nobody calls again
    wait_for(MessageStatus.UNCERTAIN, 1)
    assert len(relay.connections) == 1
    assert Attempt.objects.count() == 1


def test_two_beats_and_every_alarm_at_once_make_each_transition_once(
    rabbitmq: Broker, processes: Processes, relay: SmtpServer
) -> None:
    """Row 14, with beats and workers as processes."""
    # Given a claim that has run out, and ten messages that are due
    thread = thread_with_relay(relay)
    [lost] = queue(1, thread)
    assert claims.claim(lost.public_id) is not None
    OutboundState.objects.update(claimed_at="2020-01-01T00:00:00Z")
    messages = queue(10, thread)

    # When three workers run their alarms, two of them with a beat as well
    for arguments in (("--beat-thread",), ("--beat-thread",), ()):
        processes.worker(
            arguments=arguments,
            wait=False,
            CELERY_BROKER_URL=rabbitmq.url,
            PM_ALARM_SECONDS=0.2,
        )
    wait_for(MessageStatus.SUBMITTED, 10, seconds=60)
    wait_for(MessageStatus.UNCERTAIN, 1)

    # Then each happened once
    assert statuses() == {MessageStatus.SUBMITTED: 10, MessageStatus.UNCERTAIN: 1}
    assert Event.objects.filter(type="message.uncertain").count() == 1
    assert Event.objects.filter(type="message.sent").count() == 10
    assert max(relay.copies.values()) == 1
    assert relay.copies.total() == len(messages)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_idle_worker_sees_the_end_in_time(
    broker: Broker, processes: Processes, number: signal.Signals
) -> None:
    worker = processes.worker(CELERY_BROKER_URL=broker.url)

    began = time.monotonic()
    worker.signal(number)
    worker.process.wait(timeout=15)

    # without the tick of its event loop, RabbitMQ's takes 8 s and more
    assert time.monotonic() - began < 5


def _rings(*workers: Running) -> int:
    """Return how many rings of messages these workers have begun to serve."""
    begun = [task for worker in workers for task in worker.tasks]
    return sum(task.startswith("outbound.deliver_message") for task in begun)
