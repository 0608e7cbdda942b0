"""Many readers file one thread at once: its columns are what its messages say."""

from collections.abc import Iterator
from functools import partial
from random import Random

import pytest

from mailboxes.filing_services import Filing, file_message, file_thread
from mailboxes.models import Label, Message, Thread
from tests.factories import AddressFactory
from tests.support.answering import counted, received
from tests.support.racers import Racers

READERS, ROUNDS = 50, 4


@pytest.fixture
def readers(transactional_db: None) -> Iterator[Racers]:
    """Fifty threads that start together."""
    threads = Racers(READERS)
    yield threads
    threads.close()


def test_fifty_readers_leave_a_count_that_is_the_rows(readers: Racers) -> None:
    identity = AddressFactory.create().identity
    mails = [received(identity)]
    mails += [received(identity, mails[0].thread) for _ in range(9)]
    received(identity, mails[0].thread, status="hidden")
    thread = counted(mails[0].thread)
    dice = Random(4)  # noqa: S311  a race, not a secret

    def one_change() -> partial[None]:
        filing = Filing(read=dice.random() < 0.5)
        if dice.random() < 0.1:
            return partial(
                file_thread, identity.id, thread.public_id, filing, actor_key_id="key"
            )
        mail = dice.choice(mails)
        return partial(
            file_message, identity.id, mail.public_id, filing, actor_key_id="key"
        )

    for _ in range(ROUNDS):
        results = readers.at_once([one_change() for _ in range(READERS)])

        assert results == [None] * READERS
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
