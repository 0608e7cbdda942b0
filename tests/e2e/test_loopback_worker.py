"""Two mailboxes of a test tenant and a worker process: mail goes to and fro."""

import pytest

from domains.statuses import ReplyToken
from inbound.models import InboundJob
from mailboxes.models import Event, Message
from tests.support.loops import Box, two_boxes
from tests.support.processes import Processes, until
from tests.support.times import SHORT

pytestmark = pytest.mark.django_db(transaction=True)


def arrived(box: Box, number: int = 1) -> Message:
    """Wait until so many messages came in; return the newest."""
    until(lambda: len(box.received()) >= number, what=f"{number} messages received")
    return box.received()[-1]


def delivered(message: Message) -> None:
    """Wait until the sender has heard of the delivery."""
    found = Message.objects.filter(key=message.key, status="delivered")
    until(found.exists, what="the delivered event")


def test_a_message_and_its_answer_meet_in_one_thread(crew: Processes) -> None:
    crew.worker(**SHORT)
    ada, bob = two_boxes(ReplyToken.SUBADDRESS)

    sent = ada.send(bob)
    answer = bob.reply(arrived(bob))
    back = arrived(ada)

    assert back.thread == sent.thread
    delivered(sent)
    delivered(answer)
    types = Event.objects.filter(identity=ada.identity).order_by("seq")
    told = set(types.values_list("type", flat=True))
    assert told == {"message.sent", "message.delivered", "message.received"}


def test_a_worker_that_dies_while_it_takes_mail_in_loses_and_doubles_nothing(
    crew: Processes,
) -> None:
    # Given a worker that is killed when the copy's objects stand and no row does
    doomed = crew.worker(threads=1, planted="inbound.copied=kill", **SHORT)
    ada, bob = two_boxes()
    sent = ada.send(bob)
    until(lambda: not doomed.is_alive, what="the death of the worker")
    assert InboundJob.objects.get().state == "pending"
    assert bob.received() == []

    # When another one comes
    crew.worker(**SHORT)

    # Then the mail is there once, under the id that it was given before
    got = arrived(bob)
    delivered(sent)
    assert InboundJob.objects.get().state == "received"
    assert [got.public_id] == [InboundJob.objects.get().message_id]
    assert len(bob.received()) == 1
