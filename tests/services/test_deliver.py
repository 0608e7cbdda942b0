"""The worker half: slot, claim, call, record, and nothing that sends twice."""

from collections.abc import Callable, Iterator

import pytest
from django.db import OperationalError

from core import points
from core.clock import database_now
from delivery.models import Attempt, OutboundState
from mailboxes.models import Address, Alert, Message
from mailboxes.statuses import MessageStatus, TenantMode
from outbound import claims, deliver, dispatch, parked, slots
from outbound.slots import Slots
from outbound.transports.base import (
    ClaimLost,
    OutgoingMessage,
    RetryClass,
    RetryLater,
    TransportResult,
)
from tests.factories import QueuedMessageFactory
from tests.support.scripted import ScriptedTransport

pytestmark = pytest.mark.django_db


@pytest.fixture
def transport(
    monkeypatch: pytest.MonkeyPatch, scripted: ScriptedTransport
) -> ScriptedTransport:
    """The transport that every claim gets."""
    monkeypatch.setattr(deliver, "transport_for", lambda claim: scripted)
    return scripted


@pytest.fixture(autouse=True)
def process_slots(monkeypatch: pytest.MonkeyPatch) -> Iterator[Slots]:
    """Slots of this test's own, and a process that is not ending."""
    found = Slots(4, places=1)
    monkeypatch.setattr(slots, "process_slots", lambda: found)
    yield found
    dispatch.Closing.is_set = False
    while parked.unpark() is not None:
        pass


def rung() -> Message:
    message = QueuedMessageFactory.create()
    now = database_now()
    OutboundState.objects.filter(message=message).update(rung_at=now)
    return message


def status(message: Message) -> str:
    message.refresh_from_db()
    return message.status


def seconds_until_due(message: Message) -> float:
    row = OutboundState.objects.get(message=message)
    assert row.dispatch_at is not None
    return (row.dispatch_at - database_now()).total_seconds()


def test_a_message_rung_many_times_is_called_once(
    transport: ScriptedTransport, process_slots: Slots
) -> None:
    message = rung()

    for _ in range(5):
        deliver.deliver(message.public_id)

    assert status(message) == MessageStatus.SUBMITTED
    assert len(transport.calls) == Attempt.objects.count() == 1
    assert process_slots.held == 0


def test_a_ring_for_a_message_that_is_not_there_does_nothing(
    transport: ScriptedTransport,
) -> None:
    deliver.deliver("msg_01J00000000000000000000000")

    assert transport.calls == []


def test_a_slot_is_held_during_the_call_and_not_while_recording(
    transport: ScriptedTransport, process_slots: Slots, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = rung()
    held = []
    points.planted["deliver.claimed"] = lambda: held.append(process_slots.held)
    points.planted["deliver.answered"] = lambda: held.append(process_slots.held)

    deliver.deliver(message.public_id)

    assert held == [1, 0]


def test_without_a_slot_the_row_is_given_back_for_five_seconds(
    transport: ScriptedTransport, process_slots: Slots
) -> None:
    # Given a process whose slots are closed
    message = rung()
    process_slots.close()

    # When a ring comes, then there is no claim, and another ring in five seconds
    deliver.deliver(message.public_id)

    assert Attempt.objects.count() == 0
    assert 4 < seconds_until_due(message) <= 5
    assert OutboundState.objects.get(message=message).rung_at is None


def test_a_freed_slot_goes_on_to_the_messages_that_found_none(
    transport: ScriptedTransport, process_slots: Slots
) -> None:
    # Given all slots taken, and three messages whose rings found none
    taken = [process_slots.take(f"other{n}.example") for n in range(4)]
    messages = [rung() for _ in range(4)]
    places = process_slots.places
    process_slots.places = 0
    for message in messages[:3]:
        deliver.deliver(message.public_id)
    assert transport.calls == []

    # When slots are free again and a fourth is rung
    process_slots.places = places
    for slot in filter(None, taken):
        slot.release()
    deliver.deliver(messages[3].public_id)

    # Then its thread goes on with the three, without another ring
    assert [status(message) for message in messages] == [MessageStatus.SUBMITTED] * 4


def test_a_process_that_is_ending_claims_nothing(
    transport: ScriptedTransport,
) -> None:
    message = rung()
    dispatch.Closing.is_set = True

    deliver.deliver(message.public_id)

    assert Attempt.objects.count() == 0
    assert seconds_until_due(message) <= 5


def test_a_test_tenants_message_needs_no_slot(process_slots: Slots) -> None:
    # Given a test tenant, whose mail leaves by no socket, and no free slot
    message = rung()
    message.tenant.mode = TenantMode.TEST
    message.tenant.save()
    process_slots.close()

    deliver.deliver(message.public_id)

    assert status(message) == MessageStatus.SUBMITTED
    assert message.provider == "loopback"


def test_a_late_ring_in_a_back_off_makes_no_call(
    transport: ScriptedTransport,
) -> None:
    """Row 38: an old ring before the retry is due."""
    message = rung()
    transport.answers = [RetryLater(RetryClass.RELAY, "451")]
    for _ in range(3):
        deliver.deliver(message.public_id)

    assert len(transport.calls) == Attempt.objects.count() == 1
    assert status(message) == MessageStatus.QUEUED


def test_a_claimed_message_takes_no_second_slot(process_slots: Slots) -> None:
    message = rung()
    assert claims.claim(message.public_id) is not None
    process_slots.close()

    deliver.deliver(message.public_id)

    row = OutboundState.objects.get(message=message)
    assert row.claim_token is not None
    assert row.dispatch_at is None


def broken(message: OutgoingMessage) -> TransportResult:
    raise ValueError("a bug behind the final dot")


def claim_lost(message: OutgoingMessage) -> TransportResult:
    raise ClaimLost("too little is left")


def test_a_transport_that_breaks_leaves_doubt_and_is_never_called_again(
    transport: ScriptedTransport,
) -> None:
    message = rung()
    transport.answers = [broken]

    for _ in range(2):
        deliver.deliver(message.public_id)

    assert status(message) == MessageStatus.UNCERTAIN
    assert message.reason == "transport_connection_lost"
    assert len(transport.calls) == 1
    assert Attempt.objects.get().detail == "ValueError"


def test_a_call_that_was_not_made_for_want_of_time_is_tried_later(
    transport: ScriptedTransport,
) -> None:
    message = rung()
    transport.answers = [claim_lost]

    deliver.deliver(message.public_id)

    assert status(message) == MessageStatus.QUEUED
    assert Attempt.objects.get().code == "claim_lost"
    assert seconds_until_due(message) > 5


def test_what_fails_between_claim_and_call_is_tried_later(
    transport: ScriptedTransport,
) -> None:
    def fail() -> None:
        raise RuntimeError("planted")

    message = rung()
    points.planted["deliver.claimed"] = fail

    deliver.deliver(message.public_id)

    assert status(message) == MessageStatus.QUEUED
    assert transport.calls == []
    assert Attempt.objects.get().result == "retry"


def test_a_message_that_no_claim_can_be_taken_for_backs_off_and_ends_after_a_day(
    transport: ScriptedTransport, later: Callable[[float], None]
) -> None:
    # Given a message whose sender cannot be read any more
    message = rung()
    Address.objects.filter(address=message.from_address).delete()

    # When it is rung, then it is not rung every five seconds for ever
    deliver.deliver(message.public_id)
    assert status(message) == MessageStatus.QUEUED
    assert 50 < seconds_until_due(message) < 70
    assert Alert.objects.get().name == "claim_failed"

    # And a day later it has an end
    later(86_400)
    deliver.deliver(message.public_id)
    assert (status(message), message.reason) == ("failed", "quota_exhausted")
    assert transport.calls == []


def test_a_claim_that_fails_is_rung_again_in_five_seconds(
    transport: ScriptedTransport,
    process_slots: Slots,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(message_id: str) -> None:
        raise OperationalError("lock time-out")

    message = rung()
    monkeypatch.setattr(claims, "claim", fail)

    deliver.deliver(message.public_id)

    assert transport.calls == []
    assert 4 < seconds_until_due(message) <= 5
    assert process_slots.held == 0
