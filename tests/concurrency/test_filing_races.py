"""Many readers file one thread at once: its columns are what its messages say."""

from collections.abc import Iterator
from functools import partial

import pytest

from mailboxes.filing_services import Filing, file_message, file_thread
from mailboxes.models import Label, Message, Thread
from tests.factories import AddressFactory
from tests.support.answering import counted, received
from tests.support.racers import Racers

READERS, ROUNDS = 50, 6


@pytest.fixture
def readers(transactional_db: None) -> Iterator[Racers]:
    """Fifty threads that start together."""
    threads = Racers(READERS)
    yield threads
    threads.close()


def test_fifty_readers_leave_a_count_that_is_the_rows(readers: Racers) -> None:
    identity = AddressFactory.create().identity
    mails = [received(identity)]
    mails += [received(identity, mails[0].thread) for _ in range(READERS - 1)]
    received(identity, mails[0].thread, status="hidden")
    thread = counted(mails[0].thread)

    for n in range(ROUNDS):
        filing = Filing(read=n % 2 == 0)  # all of them change, each its own message
        results = readers.at_once(
            [
                partial(
                    file_message, identity.id, mail.public_id, filing, actor_key_id="k"
                )
                for mail in mails
            ]
        )

        assert results == [None] * READERS
        unread = Message.objects.filter(status="received", read=False).count()
        assert unread == (0 if filing.read else READERS)
        assert Thread.objects.get(key=thread.key).unread_count == unread


def test_a_thread_and_its_messages_marked_at_once_agree_in_the_end(
    racers: Racers,
) -> None:
    identity = AddressFactory.create().identity
    mails = [received(identity)]
    mails += [received(identity, mails[0].thread) for _ in range(5)]
    thread = counted(mails[0].thread)

    for n in range(ROUNDS):
        one, all_ = Filing(read=n % 2 == 0), Filing(read=n % 2 == 1)
        whole = partial(file_thread, identity.id, thread.public_id, actor_key_id="k")
        single = partial(file_message, identity.id, actor_key_id="k")
        racers.at_once(
            [
                *(partial(single, mail.public_id, one) for mail in mails),
                *(partial(whole, filing) for filing in (one, all_)),
            ]
        )

        unread = Message.objects.filter(status="received", read=False).count()
        assert Thread.objects.get(key=thread.key).unread_count == unread


def test_readers_cannot_put_more_than_64_labels_on_a_message_together(
    racers: Racers,
) -> None:
    identity = AddressFactory.create().identity
    mail = received(identity)
    counted(mail.thread)

    results = racers.at_once(
        [
            partial(
                file_message,
                identity.id,
                mail.public_id,
                Filing(add=[f"reader-{n}-{word}" for word in range(20)]),
                actor_key_id="key",
            )
            for n in range(8)
        ]
    )

    assert [result is None for result in results].count(True) == 3
    assert Label.objects.count() == 60
