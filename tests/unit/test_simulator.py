"""The whole matrix of the simulator (outbound tables, section 9)."""

from datetime import UTC, datetime, timedelta

import pytest

from delivery.events import DeliveryEvent
from outbound.transports.base import (
    Accepted,
    OutgoingMessage,
    Phase,
    Rejected,
    RejectReason,
    UncertainReason,
    Unknown,
)
from outbound.transports.simulator import SimulatorTransport, events_for

MESSAGE = "msg_01ARZ3NDEKTSV4RRFFQ69G5FAV"
AT = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def send(*recipients: str) -> object:
    return SimulatorTransport().send(
        OutgoingMessage(
            message_id=MESSAGE,
            rfc_message_id="x@agents.test",
            domain="agents.test",
            from_address="b@agents.test",
            recipients=recipients,
            mime=b"",
        )
    )


def events(*recipients: str) -> list[tuple[int, DeliveryEvent]]:
    return events_for(
        MESSAGE, sender="b@agents.test", recipients=recipients, subject="Hi", at=AT
    )


def told(*recipients: str) -> list[tuple[int, str, bool, str | None, str | None]]:
    return [
        (after, str(e.kind), e.hard, e.smtp_code, e.enhanced_code)
        for after, e in events(*recipients)
    ]


DELIVERED = (1, "delivered", False, None, None)
DEFERRED = (1, "deferred", False, "451", "4.2.0")


@pytest.mark.parametrize(
    ("local_part", "expected"),
    [
        ("delivered", [DELIVERED]),
        ("anything-else", [DELIVERED]),
        ("bounce", [(1, "bounced", True, "550", "5.1.1")]),
        ("softbounce", [DEFERRED, (3, "bounced", False, None, None)]),
        ("complaint", [DELIVERED, (3, "complained", False, None, None)]),
        ("deferred", [DEFERRED]),
        ("Bounce", [(1, "bounced", True, "550", "5.1.1")]),
    ],
)
def test_an_accepted_script_tells_its_events_in_time(
    local_part: str, expected: list[object]
) -> None:
    recipient = f"{local_part}@simulator.invalid"

    assert send(recipient) == Accepted("test-01arz3ndektsv4rrffq69g5fav")
    assert told(recipient) == expected


def test_reject_is_definitely_not_sent_and_tells_nothing() -> None:
    result = send("reject@simulator.invalid")

    assert isinstance(result, Rejected)
    assert result.reason is RejectReason.PROVIDER_VALIDATION
    assert result.code == "E_SIMULATED_REJECT"
    assert told("reject@simulator.invalid") == []


def test_timeout_is_unknown_and_no_event_ever_comes() -> None:
    result = send("timeout@simulator.invalid")

    assert isinstance(result, Unknown)
    assert result.reason is UncertainReason.TIMEOUT
    assert told("timeout@simulator.invalid") == []


@pytest.mark.parametrize(
    ("local_parts", "expected"),
    [
        (("delivered", "timeout", "reject"), Rejected),
        (("reject", "delivered"), Rejected),
        (("delivered", "timeout"), Unknown),
        (("bounce", "delivered", "deferred"), Accepted),
    ],
)
def test_of_several_any_reject_decides_then_any_timeout(
    local_parts: tuple[str, ...], expected: type[object]
) -> None:
    recipients = [f"{part}@simulator.invalid" for part in local_parts]

    assert isinstance(send(*recipients), expected)
    assert bool(told(*recipients)) is (expected is Accepted)


def test_each_recipient_tells_its_own_script() -> None:
    recipients = ("softbounce@simulator.invalid", "complaint@simulator.invalid")

    assert [(e.recipient, e.event_id) for _, e in events(*recipients)] == [
        (recipient, f"sim:{MESSAGE}:{recipient}:{n}")
        for recipient in recipients
        for n in (1, 2)
    ]


def test_an_event_names_its_message_and_its_instant() -> None:
    [(after, event)] = events("delivered@simulator.invalid")

    assert event.provider_message_id == "test-01arz3ndektsv4rrffq69g5fav"
    assert (event.source, event.sender, event.subject) == (
        "simulator",
        "b@agents.test",
        "Hi",
    )
    assert event.occurred_at == AT + timedelta(seconds=after)


def test_recipients_elsewhere_have_no_script() -> None:
    recipients = ("reject@agents.test", "delivered@simulator.invalid")

    assert isinstance(send(*recipients), Accepted)
    assert [e.recipient for _, e in events(*recipients)] == [recipients[1]]


@pytest.mark.parametrize(
    ("local_part", "expected"),
    [
        ("delivered", [Phase.SENDING]),
        ("reject", [Phase.SENDING]),
        ("timeout", [Phase.SENDING, Phase.AWAITING_REPLY]),
    ],
)
def test_the_call_announces_how_far_it_got_before_it_answers(
    local_part: str, expected: list[Phase]
) -> None:
    phases: list[Phase] = []
    message = OutgoingMessage(
        message_id=MESSAGE,
        rfc_message_id="x@agents.test",
        domain="agents.test",
        from_address="b@agents.test",
        recipients=(f"{local_part}@simulator.invalid",),
        mime=b"",
        announce=phases.append,
    )

    SimulatorTransport().send(message)

    assert phases == expected
