"""Event, late outcome, answer and alarm of one send: any order charges a unit once."""

from collections.abc import Callable
from contextlib import suppress
from itertools import permutations

import pytest

from delivery.errors import NotUncertain
from delivery.services import apply_event, resolve
from delivery.statuses import DeliveryKind
from mailboxes.models import Event, Message
from outbound import claims
from outbound.alarms import sweep_claims
from outbound.transports.base import Accepted
from tests.factories import QueuedMessageFactory
from tests.services.conftest import assert_units_add_up, statuses
from tests.services.test_provider_events import Later
from tests.support.doubts import A, stored, told

pytestmark = pytest.mark.django_db

STEPS = ("event", "late outcome", "answer", "alarm")


@pytest.mark.parametrize("outcome", ["sent", "not_sent"])
def test_every_order_of_all_that_settles_a_send_each_twice_charges_once(
    later: Later, outcome: str
) -> None:
    """Row 35: a recipient that was accepted costs one unit, and no other costs any."""
    first: Message = QueuedMessageFactory.create(recipients=(A,))
    for n, order in enumerate(permutations(STEPS)):
        message = QueuedMessageFactory.create(
            recipients=(A,), thread=first.thread, subject=f"Order {n}"
        )
        claim = claims.claim(message.public_id)
        assert claim is not None
        (row,) = stored(told(message, DeliveryKind.DELIVERED, tag=claim.message_id))
        later(301)

        def hear(row: str = row) -> None:
            apply_event(row)

        def answer(message: Message = message) -> None:
            with suppress(NotUncertain):
                resolve(
                    message.public_id,
                    outcome="sent" if outcome == "sent" else "not_sent",
                )

        def record(claim: claims.Claim = claim, n: int = n) -> None:
            claims.record(claim, Accepted(f"p-{n}"))

        act: dict[str, Callable[[], object]] = {
            "event": hear,
            "late outcome": record,
            "answer": answer,
            "alarm": sweep_claims,
        }
        for step in order:
            act[step]()
            act[step]()
        hear()  # an event that waited for the claim's end

        message.refresh_from_db()
        ends = set(statuses(message).values())
        was_denied = message.evidence == "person" and outcome == "not_sent"
        assert ends == ({"failed"} if was_denied else {"delivered"}), order
        assert message.status == ends.pop(), order
        assert_units_add_up(message)
        delivered = Event.objects.filter(
            type="message.delivered", payload__data__message_id=message.public_id
        )
        assert delivered.count() == (0 if was_denied else 1), order
