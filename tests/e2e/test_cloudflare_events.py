"""Delivery events out of Cloudflare's queue, through worker processes."""

from collections.abc import Iterator

import pytest

from core.clock import database_now
from delivery.cloudflare_queue import LEASE_SECONDS
from delivery.models import EventPull, ProviderEvent
from mailboxes.models import Event, Message
from mailboxes.statuses import MessageStatus
from tests.services.conftest import assert_units_add_up
from tests.support.cloudflare import account_at, queued
from tests.support.cloudflare_queue import QUEUE, QueueServer, said
from tests.support.processes import Processes, until
from tests.support.times import SHORT

pytestmark = pytest.mark.django_db(transaction=True)
A = "a@example.net"


@pytest.fixture
def server() -> Iterator[QueueServer]:
    """All of Cloudflare: mail is sent to it, and its queue is pulled."""
    with QueueServer() as found:
        yield found


def start(processes: Processes, server: QueueServer, *, planted: str = "") -> None:
    """Start a worker that sends to this server, and pulls its queue by beat."""
    processes.worker(
        arguments=("--beat-thread",),
        planted=planted,
        **{**SHORT, **account_at(server), "PM_CF_QUEUE_ID": QUEUE},
    )


def is_now(message: Message, status: MessageStatus) -> None:
    """Wait until a message has this status."""
    found = Message.objects.filter(key=message.key, status=status)
    until(found.exists, what=f"a message that is {status}")
    message.refresh_from_db()


def test_what_became_of_a_mail_comes_out_of_the_queue_whoever_dies(
    crew: Processes, server: QueueServer
) -> None:
    # Given a worker that is killed when it has stored an event, and not acknowledged it
    start(crew, server, planted="cloudflare_pull.stored=kill")
    [doomed] = crew.started
    message = queued(A)
    is_now(message, MessageStatus.SUBMITTED)
    server.put(
        said(
            "delivered",
            messageId=message.provider_message_id,
            sender=message.from_address,
            recipient=A,
        )
    )
    until(lambda: not doomed.is_alive, what="the death of the worker")
    assert (len(server.queue.waiting), len(server.acks)) == (1, 0)
    assert ProviderEvent.objects.get().state == "pending"

    # When another one comes
    start(crew, server)

    # Then it applies what was stored
    is_now(message, MessageStatus.DELIVERED)

    # And when turn and lease of the dead one are over, the queue gives the event again:
    # it is known, and forgotten there
    server.pass_time(LEASE_SECONDS)
    EventPull.objects.update(due_at=database_now())
    until(lambda: not server.queue.waiting, what="the acknowledgement")
    assert len(server.acks) == ProviderEvent.objects.count() == 1
    told = Event.objects.filter(identity=message.identity).order_by("seq")
    assert list(told.values_list("type", flat=True)) == [
        "message.sent",
        "message.delivered",
    ]
    assert len(server.sends) == 1
    assert_units_add_up(message)
