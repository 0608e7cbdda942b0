"""Outcome windows: which counts stop an identity, and what an event counts as."""

from datetime import UTC, datetime

import pytest

from delivery.events import DeliveryEvent
from delivery.models import Delivery
from delivery.reputation import outcome_of
from delivery.statuses import DeliveryKind, EventSource
from mailboxes.policy import BUILT_IN
from quota.windows import Counted, Outcome

DEFAULT = BUILT_IN["abuse"]


@pytest.mark.parametrize(
    ("complaints", "bounces", "is_abuse"),
    [
        *((0, 0, False), (3, 10, False), (1, 0, False), (0, 1, False)),
        *((4, 0, True), (0, 11, True), (4, 11, True), (1000, 200, True)),
    ],
)
def test_the_fourth_complaint_and_the_eleventh_bounce_are_too_many(
    complaints: int, bounces: int, is_abuse: bool
) -> None:
    assert Counted(complaints, bounces).is_abuse(DEFAULT) is is_abuse


def test_a_rate_that_is_just_met_is_not_exceeded() -> None:
    """Whatever part of the window it is: no rounding stops anybody early or late."""
    for most in range(1000):
        rate = float(f"{most / 1000:.3f}")
        rates = {"complaint_rate_pause": rate, "bounce_rate_pause": 1.0}
        assert not Counted(most, 0).is_abuse(rates)
        assert Counted(most + 1, 0).is_abuse(rates)

    for most in range(200):
        rate = float(f"{most / 200:.3f}")
        rates = {"complaint_rate_pause": 1.0, "bounce_rate_pause": rate}
        assert not Counted(0, most).is_abuse(rates)
        assert Counted(0, most + 1).is_abuse(rates)


def test_a_rate_of_nothing_allows_nothing() -> None:
    none = {"complaint_rate_pause": 0.0, "bounce_rate_pause": 0.0}

    assert not Counted(0, 0).is_abuse(none)
    assert Counted(1, 0).is_abuse(none)
    assert Counted(0, 1).is_abuse(none)


def told(kind: DeliveryKind, *, hard: bool) -> DeliveryEvent:
    return DeliveryEvent(
        source=EventSource.SES,
        event_id="e",
        provider_message_id="p",
        sender="bookings@mail.example",
        recipient="jo@example.net",
        kind=kind,
        occurred_at=datetime(2026, 11, 29, tzinfo=UTC),
        hard=hard,
    )


B, O = Outcome.BOUNCED, Outcome.OTHER  # noqa: E741  as the table below reads


@pytest.mark.parametrize(
    ("status", "bounce_type", "kind", "hard", "outcome"),
    [
        ("submitted", None, "delivered", False, Outcome.DELIVERED),
        ("submitted", None, "deferred", False, None),
        ("submitted", None, "bounced", True, B),
        ("submitted", None, "bounced", False, O),
        ("submitted", None, "failed", False, O),
        ("submitted", None, "rejected", False, O),
        ("submitted", None, "complained", False, Outcome.COMPLAINED),
        ("uncertain", None, "delivered", False, Outcome.DELIVERED),
        ("delivered", None, "bounced", True, B),
        ("delivered", None, "complained", False, Outcome.COMPLAINED),
        ("bounced", "hard", "complained", False, Outcome.COMPLAINED),
        # told of twice: in the answer to the call, and by an event
        ("bounced", "hard", "bounced", True, None),
        ("bounced", "hard", "bounced", False, None),
        ("bounced", "soft", "bounced", False, None),
        ("bounced", "soft", "bounced", True, B),
    ],
)
def test_what_an_applied_event_counts_as(
    status: str, bounce_type: str | None, kind: str, hard: bool, outcome: Outcome | None
) -> None:
    before = Delivery(status=status, bounce_type=bounce_type)

    assert outcome_of(told(DeliveryKind(kind), hard=hard), before) == outcome
