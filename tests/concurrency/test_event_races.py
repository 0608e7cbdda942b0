"""Two workers on one message's events: every order of commits, and the books add up.

The sends are made in bulk; a round costs what its workers do, and no more.
"""

from functools import partial
from typing import Any, Literal

import pytest

from core.clock import database_now
from delivery import inbox
from delivery.errors import NotUncertain
from delivery.models import Delivery, ProviderEvent
from delivery.services import apply_event, resolve
from delivery.statuses import DeliveryKind
from mailboxes.models import Alert, AuditRow, Event, Identity, Message
from outbound import claims
from outbound.transports.base import Accepted
from tests.factories import AddressFactory, QueuedMessageFactory, ThreadFactory
from tests.services.conftest import assert_units_add_up
from tests.support.doubts import A, B, doubts, stored, told
from tests.support.racers import Racers

pytestmark = pytest.mark.django_db(transaction=True)

K = DeliveryKind


@pytest.fixture
def sender(transactional_db: None) -> Identity:
    """An identity that may send."""
    identity: Identity = AddressFactory.create().identity
    return identity


def assert_books(messages: list[Message]) -> None:
    """Hold that units, sequence and events are those of the rows."""
    assert_units_add_up(messages[0])
    seqs = Event.objects.order_by("seq").values_list("seq", flat=True)
    assert list(seqs) == list(range(1, len(seqs) + 1))


def test_two_events_of_one_message_are_both_applied(
    sender: Identity, racers: Racers
) -> None:
    """Row 11: of two recipients, or of one; one of the events by two workers."""
    messages = doubts(sender, 100, recipients=(A, B))
    for n, message in enumerate(messages):
        kinds = (K.DELIVERED, K.COMPLAINED)
        recipients = (A, B) if n % 2 else (A, A)
        rows = stored(
            *(
                told(message, kind, recipient=one, provider_message_id=f"p-{n}")
                for kind, one in zip(kinds, recipients, strict=True)
            )
        )

        got = racers.at_once([partial(apply_event, row) for row in (*rows, rows[0])])

        assert got[1] == "applied"
        assert sorted(map(str, (got[0], got[2]))) == ["None", "applied"]
    statuses = Delivery.objects.values_list("address", "status")
    ends = {(a, s): statuses.filter(address=a, status=s).count() for a, s in statuses}
    assert ends == {
        (A, "complained"): 50,
        (A, "delivered"): 50,
        (B, "complained"): 50,
        (B, "uncertain"): 50,
    }
    assert set(Message.objects.values_list("status", flat=True)) == {"complained"}
    assert Event.objects.filter(type="message.reconciled").count() == 100
    assert_books(messages)


def test_one_event_stored_by_eight_at_once_is_one_row(
    sender: Identity, racers: Racers
) -> None:
    """R19: the unique key holds, and nobody is told of an error."""
    messages = doubts(sender, 50)

    def store(message: Message) -> int:
        return inbox.store([told(message, K.DELIVERED)], due_at=[database_now()])

    for message in messages:
        got = racers.at_once([partial(store, message)] * 8)

        assert sorted(map(str, got)) == ["0"] * 7 + ["1"]
    assert ProviderEvent.objects.count() == 50


def test_an_answer_and_an_event_at_once_leave_one_winner(
    sender: Identity, racers: Racers
) -> None:
    """Row 11: 500 rounds, on the same send; the event carries our tag."""
    messages = doubts(sender, 500)
    rows = stored(*(told(m, K.DELIVERED, tag=m.public_id) for m in messages))
    ends: dict[tuple[str, str, str], int] = {}
    for n, (message, row) in enumerate(zip(messages, rows, strict=True)):
        outcome: Literal["sent", "not_sent"] = "sent" if n % 2 else "not_sent"
        answer = partial(resolve, message.public_id, outcome=outcome)
        both: list[Any] = [partial(apply_event, row), answer]

        first, second = racers.at_once(both if n % 3 else both[::-1])
        state, answered = (first, second) if n % 3 else (second, first)

        won = "event" if isinstance(answered, NotUncertain) else "person"
        assert won == "event" or isinstance(answered, Message), answered
        end = (outcome, won, str(state))
        ends[end] = ends.get(end, 0) + 1
    assert set(ends) <= {
        ("sent", "event", "applied"),
        ("sent", "person", "applied"),  # the event goes on from there
        ("not_sent", "event", "applied"),
        ("not_sent", "person", "refused"),  # and is kept as evidence
    }
    by_person = sum(n for (_, won, _), n in ends.items() if won == "person")
    not_sent = ends.get(("not_sent", "person", "refused"), 0)
    assert AuditRow.objects.filter(action="message.resolve").count() == by_person
    assert Alert.objects.filter(name="event_contradicts_person").count() == not_sent
    assert Message.objects.filter(status="failed").count() == not_sent
    assert Message.objects.filter(status="delivered").count() == 500 - not_sent
    charged = Delivery.objects.filter(charged_at__isnull=False)
    assert charged.count() == 500 - not_sent
    assert Event.objects.filter(type="message.reconciled").count() == 500 - by_person
    assert_books(messages)


def test_an_event_that_overtakes_the_record_is_applied_all_the_same(
    sender: Identity, racers: Racers
) -> None:
    """The provider's id is stored by the record, which comes at the same time."""
    thread = ThreadFactory.create(identity=sender)
    messages = [
        QueuedMessageFactory.create(thread=thread, recipients=(A,)) for _ in range(40)
    ]
    for n, message in enumerate(messages):
        claim = claims.claim(message.public_id)
        assert claim is not None
        by_id = {"provider_message_id": f"p-{n}"}
        tagged = {**by_id, "tag": message.public_id}
        (row,) = stored(told(message, K.DELIVERED, **(tagged if n % 2 else by_id)))

        got = racers.at_once(
            [
                partial(claims.record, claim, Accepted(f"p-{n}")),
                partial(apply_event, row),
            ]
        )

        assert got[0] is None
        assert got[1] in ("applied", "pending")
        assert got[1] == "applied" or apply_event(row) == "applied"
    assert set(Message.objects.values_list("status", flat=True)) == {"delivered"}
    assert Event.objects.filter(type="message.sent").count() == 40
    assert Event.objects.filter(type="message.delivered").count() == 40
    assert_books(messages)
