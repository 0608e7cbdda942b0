"""A broker that hangs, refuses or goes away: claims are swept, nothing is lost."""

import time
from collections.abc import Iterator

import pytest

from delivery.models import Attempt, OutboundState
from mailboxes.statuses import MessageStatus
from outbound import claims
from pylota.celery import app as product
from tests.support.brokers import Broker
from tests.support.processes import Processes, until
from tests.support.queued import (
    assert_each_was_sent_once,
    queue,
    thread_with_relay,
    wait_for,
)
from tests.support.sending import open_account, settle
from tests.support.smtp_script import Script
from tests.support.smtp_server import SmtpServer
from tests.support.tcp_proxy import TcpProxy

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.brokers]


@pytest.fixture
def proxy(broker: Broker) -> Iterator[TcpProxy]:
    with TcpProxy(broker.address) as found:
        yield found


def publish(broker: Broker) -> tuple[float, Exception]:
    """Publish once, as the dispatcher does; return how long it took to fail."""
    app = broker.app()
    began = time.monotonic()
    with pytest.raises(Exception) as failure:  # noqa: PT011  each library's own
        app.send_task("outbound.deliver_message", args=["x"], queue="outbound")
    took = time.monotonic() - began
    app.close()
    return took, failure.value


def test_a_publish_to_a_broker_that_never_answers_fails_in_about_five_seconds(
    broker: Broker, proxy: TcpProxy
) -> None:
    proxy.freeze()

    took, _ = publish(broker.through(proxy.port))

    assert took < 8


def test_a_publish_to_a_broker_that_refuses_fails_within_a_second(
    broker: Broker, proxy: TcpProxy
) -> None:
    proxy.refuse()

    took, _ = publish(broker.through(proxy.port))

    assert took < 2


def test_claims_are_swept_and_all_is_sent_once_around_a_frozen_broker(
    broker: Broker, proxy: TcpProxy, processes: Processes, relay: SmtpServer
) -> None:
    # Given a worker whose broker stops answering, and a claim whose worker is gone
    thread = thread_with_relay(relay)
    processes.worker(
        CELERY_BROKER_URL=broker.through(proxy.port).url,
        PM_CLAIM_SECONDS=4,
        PM_ALARM_SECONDS=0.5,
        PM_REDISPATCH_SECONDS=3,
    )
    [lost] = queue(1, thread)
    proxy.freeze()
    OutboundState.objects.update(dispatch_at="2100-01-01T00:00:00Z")
    assert claims.claim(lost.public_id) is not None
    began = time.monotonic()

    # When messages become due meanwhile
    messages = queue(30, thread)

    # Then the claim ends on time all the same
    wait_for(MessageStatus.UNCERTAIN, 1, seconds=12)
    assert time.monotonic() - began < 12
    assert Attempt.objects.count() == 1

    # And with the broker back, every message is sent once
    proxy.thaw()
    wait_for(MessageStatus.SUBMITTED, 30, seconds=60)
    assert max(relay.copies.values()) == 1
    assert relay.copies.total() == len(messages)


def test_all_that_was_accepted_while_the_broker_was_gone_is_sent_after_it_is_back(
    broker: Broker, proxy: TcpProxy, processes: Processes, relay: SmtpServer
) -> None:
    # Given a worker that has worked, and whose broker is then stopped
    thread = thread_with_relay(relay)
    worker = processes.worker(
        CELERY_BROKER_URL=broker.through(proxy.port).url, threads=8
    )
    messages = queue(2, thread)
    wait_for(MessageStatus.SUBMITTED, 2)
    proxy.refuse()
    proxy.cut()

    # When 100 messages are accepted, and none can be rung
    messages += queue(100, thread)
    until(lambda: "dispatcher_failed" in worker.output, what="a failed ring")
    assert Attempt.objects.count() == 2

    # Then all are sent once it is back
    proxy.admit()
    wait_for(MessageStatus.SUBMITTED, 102, seconds=60)
    assert_each_was_sent_once(relay, messages)


def test_a_connection_lost_in_a_call_gives_the_task_again_and_makes_no_second_call(
    broker: Broker, proxy: TcpProxy, processes: Processes, relay: SmtpServer
) -> None:
    # Given a worker in the middle of a call
    relay.follow(Script(always={"dot": "late:4"}))
    messages = queue(1, thread_with_relay(relay))
    worker = processes.worker(CELERY_BROKER_URL=broker.through(proxy.port).url)
    relay.wait_until(lambda: len(relay.mails) == 1)

    # When its connection to the broker is cut, and RabbitMQ gives the task again
    proxy.cut()
    again = broker.through(proxy.port)
    again.ring(messages[0].public_id)
    until(lambda: len(worker.tasks) >= 3, what="the task for a second time")

    # Then there is one call
    wait_for(MessageStatus.SUBMITTED, 1)
    assert_each_was_sent_once(relay, messages)


def test_requests_are_quick_while_the_broker_hangs_and_all_is_sent_afterwards(
    rabbitmq: Broker, processes: Processes, relay: SmtpServer
) -> None:
    # Given a web and a worker whose broker accepts connections and never answers
    with TcpProxy(rabbitmq.address) as frozen:
        url = rabbitmq.through(frozen.port).url
        processes.worker(threads=8, CELERY_BROKER_URL=url)
        web = processes.web(CELERY_BROKER_URL=url)
        client = open_account(relay, base_url=web.url)
        frozen.freeze()

        # When 100 sends are accepted
        client.accept_many(f"key-{n}" for n in range(100))

        # Then 95 of them took less than a second each
        assert sorted(client.took)[94] < 1

        # And with the broker back all are sent once
        frozen.thaw()
        copies = settle(client, relays=[relay], seconds=60)
    assert sum(copies.values()) == len(copies) == 100


def test_messages_carry_an_id_and_nothing_else(
    broker: Broker, relay: SmtpServer
) -> None:
    [message] = queue(1, thread_with_relay(relay))
    broker.ring(message.public_id)

    [rung] = broker.waiting("outbound")

    arguments, options, _ = rung.decode()
    assert (arguments, options) == ([message.public_id], {})
    assert rung.headers["task"] == "outbound.deliver_message"


def test_the_four_queues_have_exchanges_and_keys_of_their_own() -> None:
    found = {
        queue.name: (queue.exchange.name, queue.routing_key)
        for queue in product.amqp.queues.values()
    }

    names = ("outbound", "events", "webhooks", "maintenance")
    assert found == {name: (name, name) for name in names}
