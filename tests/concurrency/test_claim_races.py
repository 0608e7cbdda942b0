"""Who claims, who records, who settles: races on real locks, many rounds each."""

from collections.abc import Iterator
from datetime import timedelta
from functools import partial

import pytest

from core import clock
from delivery.errors import NotUncertain
from delivery.models import Attempt, OutboundState, ProviderEvent
from delivery.services import apply_event, resolve
from delivery.statuses import DeliveryKind
from mailboxes.models import Event, Message
from mailboxes.statuses import MessageStatus
from outbound import claims
from outbound.alarms import sweep_claims
from outbound.claims import Claim
from quota.services import sweep_holds
from tests.factories import AddressFactory, QueuedMessageFactory, ThreadFactory
from tests.services.conftest import assert_units_add_up
from tests.support.bulk_queue import queue_in_bulk
from tests.support.doubts import A, B, doubts, stored, told
from tests.support.racers import Racers
from tests.support.scripted import accepted

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def bulk(transactional_db: None) -> list[str]:
    """The ids of a hundred queued messages of one mailbox."""
    return queue_in_bulk(AddressFactory.create().identity, 100, recipients=(A, B))


@pytest.fixture
def messages() -> Iterator[Message]:
    """Queued messages of one mailbox, as many as are asked for."""
    thread = ThreadFactory.create(identity=AddressFactory.create().identity)
    return iter(
        lambda: QueuedMessageFactory.create(thread=thread, recipients=(A, B)), None
    )


def record_accepted(claim: Claim) -> None:
    claims.record(claim, accepted(claim.outgoing))


def overdue() -> timedelta:
    return timedelta(seconds=301)


def test_eight_workers_on_one_message_get_one_claim(
    bulk: list[str], racers: Racers
) -> None:
    for message_id in bulk[:60]:
        got = racers.at_once([partial(claims.claim, message_id)] * 8)

        assert [type(one) for one in got if one is not None] == [Claim]
        assert Attempt.objects.filter(message__public_id=message_id).count() == 1
        claim = next(one for one in got if isinstance(one, Claim))
        claims.record(claim, accepted(claim.outgoing))


def test_a_record_and_three_alarms_at_once_agree_on_one_end(
    bulk: list[str], racers: Racers
) -> None:
    for message_id in bulk:
        claim = claims.claim(message_id)
        assert claim is not None
        clock.offset += overdue()

        got = racers.at_once(
            [
                partial(record_accepted, claim),
                *[sweep_claims] * 3,
            ]
        )

        assert not [one for one in got if isinstance(one, Exception)]
        message = Message.objects.get(public_id=message_id)
        assert message.status == MessageStatus.SUBMITTED
        assert not OutboundState.objects.filter(message=message).exists()
    assert_units_add_up(message)


def test_one_record_run_eight_times_at_once_counts_once(
    bulk: list[str], racers: Racers
) -> None:
    for message_id in bulk[:40]:
        claim = claims.claim(message_id)
        assert claim is not None

        racers.at_once([partial(record_accepted, claim)] * 8)

        heard = Event.objects.filter(payload__data__message__id=message_id)
        assert heard.count() == 1
    assert_units_add_up(Message.objects.get(public_id=bulk[0]))


def test_two_events_and_an_answer_at_once_leave_one_winner(racers: Racers) -> None:
    """Row 11, with an event for each recipient; both know the send by its subject."""
    messages = doubts(AddressFactory.create().identity, 100, recipients=(A, B))
    said = [
        [told(message, DeliveryKind.DELIVERED, recipient=one) for one in (A, B)]
        for message in messages
    ]
    for message, events in zip(messages, said, strict=True):
        first, second = stored(*events)

        got = racers.at_once(
            [
                partial(apply_event, first),
                partial(apply_event, second),
                partial(resolve, message.public_id, outcome="not_sent"),
            ]
        )

        assert not [e for e in got[:2] if isinstance(e, Exception)]
        assert not isinstance(got[2], Exception) or isinstance(got[2], NotUncertain)
        message.refresh_from_db()
        assert message.status in {
            MessageStatus.FAILED,
            MessageStatus.DELIVERED,
        }
        ProviderEvent.objects.filter(state="pending").delete()
    assert_units_add_up(messages[0])


def test_a_hold_that_expires_while_its_send_settles_is_closed_once(
    messages: Iterator[Message], racers: Racers
) -> None:
    for _ in range(100):
        message = next(messages)
        claim = claims.claim(message.public_id)
        assert claim is not None
        clock.offset += timedelta(seconds=700)

        got = racers.at_once(
            [
                sweep_holds,
                partial(record_accepted, claim),
                sweep_holds,
            ]
        )

        assert not [one for one in got if isinstance(one, Exception)]
        assert_units_add_up(message)
