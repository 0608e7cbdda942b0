"""Who claims, who records, who settles: races on real locks, many rounds each."""

from collections.abc import Iterator
from datetime import timedelta
from functools import partial

import pytest

from core import clock
from core.clock import database_now
from delivery import inbox
from delivery.errors import NotUncertain
from delivery.events import DeliveryEvent
from delivery.models import Attempt, OutboundState, ProviderEvent
from delivery.services import apply_event, resolve
from delivery.statuses import DeliveryKind, EventSource
from mailboxes.models import Event, Message
from mailboxes.statuses import MessageStatus
from outbound import claims
from outbound.alarms import sweep_claims
from outbound.claims import Claim
from quota.services import sweep_holds
from tests.factories import AddressFactory, QueuedMessageFactory, ThreadFactory
from tests.services.conftest import assert_units_add_up
from tests.support.racers import Racers
from tests.support.scripted import accepted

pytestmark = pytest.mark.django_db(transaction=True)
A, B = "a@example.net", "b@example.net"


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
    messages: Iterator[Message], racers: Racers
) -> None:
    for _ in range(60):
        message = next(messages)

        got = racers.at_once([partial(claims.claim, message.public_id)] * 8)

        assert [type(one) for one in got if one is not None] == [Claim]
        assert Attempt.objects.filter(message=message).count() == 1
        claim = next(one for one in got if isinstance(one, Claim))
        claims.record(claim, accepted(claim.outgoing))


def test_a_record_and_three_alarms_at_once_agree_on_one_end(
    messages: Iterator[Message], racers: Racers
) -> None:
    for _ in range(100):
        message = next(messages)
        claim = claims.claim(message.public_id)
        assert claim is not None
        clock.offset += overdue()

        got = racers.at_once(
            [
                partial(record_accepted, claim),
                *[sweep_claims] * 3,
            ]
        )

        assert not [one for one in got if isinstance(one, Exception)]
        message.refresh_from_db()
        assert message.status == MessageStatus.SUBMITTED
        assert not OutboundState.objects.filter(message=message).exists()
    assert_units_add_up(message)


def test_one_record_run_eight_times_at_once_counts_once(
    messages: Iterator[Message], racers: Racers
) -> None:
    for _ in range(40):
        message = next(messages)
        claim = claims.claim(message.public_id)
        assert claim is not None

        racers.at_once([partial(record_accepted, claim)] * 8)

        told = Event.objects.filter(payload__data__message__id=message.public_id)
        assert told.count() == 1
    assert_units_add_up(message)


def test_resolving_racing_an_event_leaves_one_winner(
    messages: Iterator[Message], racers: Racers
) -> None:
    for n in range(150):
        message = next(messages)
        claims.claim(message.public_id)
        clock.offset += overdue()
        sweep_claims()
        inbox.store(
            [
                DeliveryEvent(
                    source=EventSource.SIMULATOR,
                    event_id=f"race:{n}:{recipient}",
                    provider_message_id=f"p-{n}",
                    sender=message.from_address or "",
                    recipient=recipient,
                    kind=DeliveryKind.DELIVERED,
                    occurred_at=database_now(),
                    subject=message.subject,
                )
                for recipient in (A, B)
            ],
            due_at=[database_now()] * 2,
        )
        rows = ProviderEvent.objects.filter(event_id__startswith=f"race:{n}:")
        first, second = rows.values_list("id", flat=True)

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
        Message.objects.filter(pk=message.pk).update(subject=f"done {n}")
        ProviderEvent.objects.filter(state="pending").delete()
    assert_units_add_up(message)


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
