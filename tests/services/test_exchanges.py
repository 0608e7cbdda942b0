"""Loops as the rows show them: automatic replies in a row, and a thread's hop."""

import pytest

from mailboxes.models import Thread
from mailboxes.statuses import Direction, MessageKind, MessageStatus
from outbound import thread_lock
from outbound.answered import thread_facts
from outbound.plan import ThreadFacts
from outbound.thread_lock import Taken
from tests.factories import MessageFactory, ThreadFactory

pytestmark = pytest.mark.django_db

SENT = (
    MessageStatus.QUEUED, MessageStatus.SUBMITTED, MessageStatus.DELIVERED,
    MessageStatus.DEFERRED, MessageStatus.BOUNCED, MessageStatus.COMPLAINED,
    MessageStatus.UNCERTAIN,
)  # fmt: skip
UNSENT = (
    MessageStatus.CANCELED, MessageStatus.REJECTED, MessageStatus.FAILED,
    MessageStatus.SUPPRESSED,
)  # fmt: skip


@pytest.fixture
def thread(db: None) -> Thread:
    return ThreadFactory.create()


def facts_of(thread: Thread) -> ThreadFacts:
    found = thread_facts(thread.identity_id, thread.public_id)
    assert found is not None
    return found


def automatic_exchanges(thread: Thread) -> int:
    """Return the count among the facts, which is that under the lock."""
    found = facts_of(thread).exchanges
    taken = thread_lock.take(thread.key, owner="msg_counting")
    assert isinstance(taken, Taken)
    assert taken.exchanges == found
    return found


def automatic(thread: Thread, status: MessageStatus = MessageStatus.DELIVERED) -> None:
    MessageFactory.create(thread=thread, kind=MessageKind.AUTO_REPLY, status=status)


def received(
    thread: Thread,
    hop: int | None = None,
    status: MessageStatus = MessageStatus.RECEIVED,
) -> None:
    MessageFactory.create(
        thread=thread,
        direction=Direction.INBOUND,
        status=status,
        kind=MessageKind.NORMAL,
        operation=None,
        automated=None if hop is None else {"hop": hop},
    )


def test_d6_automatic_replies_count_until_a_person_writes(thread: Thread) -> None:
    assert automatic_exchanges(thread) == 0
    automatic(thread)
    received(thread)
    automatic(thread)
    assert automatic_exchanges(thread) == 2

    MessageFactory.create(thread=thread, kind=MessageKind.TRANSACTIONAL)
    assert automatic_exchanges(thread) == 0

    automatic(thread)
    assert automatic_exchanges(thread) == 1


@pytest.mark.parametrize("status", [*SENT, *UNSENT])
def test_an_automatic_reply_that_never_left_does_not_count(
    thread: Thread, status: MessageStatus
) -> None:
    automatic(thread, status)

    assert automatic_exchanges(thread) == (1 if status in SENT else 0)


def test_another_thread_of_the_mailbox_has_its_own_count(thread: Thread) -> None:
    other = ThreadFactory.create(identity=thread.identity, seq=999)
    automatic(other)

    assert automatic_exchanges(thread) == 0


def test_a_thread_goes_on_from_the_hop_of_its_newest_visible_mail(
    thread: Thread,
) -> None:
    assert facts_of(thread).hop == 0
    received(thread, 4)
    MessageFactory.create(thread=thread)
    assert facts_of(thread).hop == 4
    received(thread, 9, MessageStatus.HIDDEN)
    assert facts_of(thread).hop == 4
    received(thread)
    assert facts_of(thread).hop == 0
