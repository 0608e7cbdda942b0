"""The dispatcher's function: what is due is rung once, moved on, and never lost."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from celery import current_app
from kombu.exceptions import OperationalError
from pytest_django import Settings

from core.clock import database_now
from core.ids import new_id
from delivery.models import OutboundState, ProviderEvent
from delivery.statuses import EventSource
from mailboxes.models import Message
from outbound import dispatch
from tests.factories import QueuedMessageFactory

pytestmark = pytest.mark.django_db


class Rings:
    """A broker's end that counts, and fails when told to."""

    def __init__(self) -> None:
        self.taken: list[tuple[str, str, str]] = []
        self.fails_after: int | None = None

    def send(self, task: str, *, args: list[str], queue: str, **_: object) -> None:
        if self.fails_after is not None and len(self.taken) >= self.fails_after:
            raise OperationalError("broker gone")
        self.taken.append((task, queue, args[0]))

    @property
    def ids(self) -> list[str]:
        return [public_id for _, _, public_id in self.taken]


@pytest.fixture
def rings(monkeypatch: pytest.MonkeyPatch) -> Rings:
    found = Rings()
    monkeypatch.setattr(current_app, "send_task", found.send)
    return found


@pytest.fixture(autouse=True)
def _open_again() -> Iterator[None]:
    yield
    dispatch.Closing.is_set = False


def due(number: int) -> list[Message]:
    first = QueuedMessageFactory.create()
    rest = QueuedMessageFactory.create_batch(number - 1, thread=first.thread)
    return [first, *rest]


def seconds_until_due(message: Message) -> float:
    row = OutboundState.objects.get(message=message)
    assert row.dispatch_at is not None
    return (row.dispatch_at - database_now()).total_seconds()


def event_due() -> ProviderEvent:
    return ProviderEvent.objects.create(
        id=new_id("pev"),
        source=EventSource.SIMULATOR,
        event_id=new_id("evt"),
        payload={},
        occurred_at=database_now(),
        due_at=database_now(),
    )


def test_a_due_message_is_rung_once_and_is_due_again_after_five_minutes(
    rings: Rings,
) -> None:
    message = due(1)[0]

    assert dispatch.dispatch_due() == 1
    assert dispatch.dispatch_due() == 0

    assert rings.taken == [("outbound.deliver_message", "outbound", message.public_id)]
    assert 295 < seconds_until_due(message) <= 300
    assert OutboundState.objects.get(message=message).rung_at is not None


def test_a_due_provider_event_is_handed_to_its_own_queue(rings: Rings) -> None:
    event = event_due()

    dispatch.dispatch_due()
    dispatch.dispatch_due()

    assert rings.taken == [("delivery.apply_event", "events", event.id)]


def test_what_is_not_due_yet_is_not_rung(rings: Rings) -> None:
    message = due(1)[0]
    later = database_now() + timedelta(seconds=2)
    OutboundState.objects.update(dispatch_at=later, retry_at=later)

    assert dispatch.dispatch_due() == 0
    assert rings.ids == []
    assert OutboundState.objects.get(message=message).rung_at is None


def test_more_than_one_batch_is_rung_until_none_is_left(
    rings: Rings, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = due(7)
    taken = []
    take = dispatch.take_due

    def small(queue: dispatch.DueQueue) -> dispatch.Batch:
        taken.append(len((batch := take(queue, limit=3)).ids))
        return batch

    monkeypatch.setattr(dispatch, "take_due", small)

    assert dispatch.dispatch_due() == 7
    assert sorted(rings.ids) == sorted(message.public_id for message in messages)
    assert max(taken) == 3


def test_at_most_the_ring_ahead_stands_rung_and_unclaimed(
    rings: Rings, settings: Settings
) -> None:
    # Given ten due messages, and a limit of four
    settings.PM_RING_AHEAD = 4
    due(10)

    # When the dispatcher looks three times, then four are rung
    for _ in range(3):
        dispatch.dispatch_due()
    assert len(rings.ids) == 4

    # And for one that is claimed, one more
    OutboundState.objects.filter(message__public_id=rings.ids[0]).delete()
    dispatch.dispatch_due()
    assert len(rings.ids) == len(set(rings.ids)) == 5


def test_rings_that_got_lost_are_repeated_even_at_the_limit(
    rings: Rings, settings: Settings
) -> None:
    # Given as many rung messages as may be, whose rings were lost with the broker
    settings.PM_RING_AHEAD = 3
    due(5)
    dispatch.dispatch_due()
    lost = rings.ids.copy()
    OutboundState.objects.filter(rung_at__isnull=False).update(
        dispatch_at=database_now()
    )

    # When the dispatcher looks again, then those are rung again and no other
    dispatch.dispatch_due()
    assert sorted(rings.ids[3:]) == sorted(lost)


def test_a_failed_ring_ends_the_batch_and_is_due_again_in_five_seconds(
    rings: Rings,
) -> None:
    # Given a broker that takes two of five rings
    messages = {message.public_id: message for message in due(5)}
    rings.fails_after = 2

    # When the dispatcher looks
    with pytest.raises(dispatch.BrokerAway, match=r"^OperationalError$"):
        dispatch.dispatch_due()

    # Then the two wait five minutes, the three five seconds and are not rung
    waits = {name: seconds_until_due(messages[name]) for name in messages}
    assert all(295 < waits[name] <= 300 for name in rings.ids)
    failed = messages.keys() - set(rings.ids)
    assert all(4 < waits[name] <= 5 for name in failed)
    assert OutboundState.objects.filter(rung_at=None).count() == len(failed) == 3


def test_a_process_that_is_ending_rings_nothing(rings: Rings) -> None:
    message = due(1)[0]
    dispatch.Closing.is_set = True

    assert dispatch.dispatch_due() == 0
    assert rings.ids == []
    assert seconds_until_due(message) <= 0


def test_a_batch_taken_before_the_end_began_is_due_for_others_at_once(
    rings: Rings,
) -> None:
    message = due(1)[0]
    batch = dispatch.take_due(dispatch.MESSAGES)
    dispatch.Closing.is_set = True

    assert dispatch.publish(dispatch.MESSAGES, batch) == 0
    assert seconds_until_due(message) <= 0


def test_a_row_given_back_is_due_in_five_seconds_and_not_rung(rings: Rings) -> None:
    message = due(1)[0]
    dispatch.dispatch_due()

    dispatch.give_back(dispatch.MESSAGES, message.public_id)

    assert 4 < seconds_until_due(message) <= 5
    assert OutboundState.objects.get(message=message).rung_at is None


def test_a_late_ring_that_finds_no_slot_does_not_shorten_a_back_off(
    rings: Rings,
) -> None:
    message = due(1)[0]
    later = database_now() + timedelta(minutes=10)
    OutboundState.objects.update(dispatch_at=later, retry_at=later, rung_at=None)

    dispatch.give_back(dispatch.MESSAGES, message.public_id)

    assert seconds_until_due(message) > 500


def test_a_start_over_memory_makes_rung_rows_due_and_leaves_back_offs(
    rings: Rings,
) -> None:
    # Given a rung message, a rung event, and a message in its back-off
    rung, waiting = due(2)
    OutboundState.objects.filter(message=waiting).update(
        dispatch_at=database_now() + timedelta(minutes=3)
    )
    event_due()
    dispatch.dispatch_due()
    before = len(rings.ids)

    # When a process starts over memory://
    assert dispatch.reset_rung() == 2

    # Then the first two are rung again, and the third waits on
    assert dispatch.dispatch_due() == 2
    assert sorted(rings.ids[before:]) == sorted(rings.ids[:before])
    assert rung.public_id in rings.ids[before:]
    assert seconds_until_due(waiting) > 170
