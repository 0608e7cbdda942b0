"""SES's events, type by type, in the one form of every provider."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from core.ids import new_id
from delivery.events import DeliveryEvent
from delivery.ses_events import NoEvent, events_of
from delivery.statuses import DeliveryKind, EventSource
from outbound.transports.ses import TAG
from tests.support.sns import (
    Fields,
    bounce,
    complaint,
    delay,
    delivery,
    ses_event,
    stamp,
)

NOW = datetime(2026, 10, 9, 8, 30, tzinfo=UTC)
PUBLISHED = NOW - timedelta(seconds=2)
JO, KIM, LEE = "jo@example.net", "kim@example.org", "lee@example.com"


def read(event: Fields | str) -> list[DeliveryEvent]:
    """Read one notification's text."""
    text = event if isinstance(event, str) else json.dumps(event)
    return events_of(text, notification_id="n-1", published_at=PUBLISHED, now=NOW)


def told(event: Fields) -> dict[str, Any]:
    """Return what the one event of a notification says, as a row holds it."""
    (one,) = read(event)
    return one.payload()


def test_an_event_names_its_mail_in_every_way_that_finds_it() -> None:
    tag = new_id("msg")
    section = delivery(JO, at="2026-10-09T08:29:57.000Z")

    (event,) = read(ses_event("Delivery", tag=tag, **section))

    assert event == DeliveryEvent(
        source=EventSource.SES,
        event_id=f"ses:n-1:{JO}",
        provider_message_id="0102018f-0000-000000",
        sender="bookings@acme.example.com",
        recipient=JO,
        kind=DeliveryKind.DELIVERED,
        occurred_at=NOW - timedelta(seconds=3),
        subject="Your booking",
        smtp_code="250",
        enhanced_code="2.6.0",
        smtp_response="250 2.6.0 Message received",
        tag=tag,
    )


# --- every row of the table ----------------------------------------------------------

REASON: Fields = {"reject": {"reason": "Bad content"}}
UNMADE: Fields = {
    "failure": {"templateName": "x", "errorMessage": "Attribute is missing"}
}
BOUNCED = {"kind": "bounced", "smtp_code": "550", "enhanced_code": "5.1.1"}


@pytest.mark.parametrize(
    ("kind", "section", "said"),
    [
        ("Delivery", delivery(JO), {"kind": "delivered", "hard": False}),
        ("Bounce", bounce(JO), {**BOUNCED, "hard": True, "by_provider_list": False}),
        (
            "Bounce",
            bounce(JO, sub_type="Suppressed"),
            {**BOUNCED, "hard": True, "by_provider_list": True},
        ),
        (
            "Bounce",
            bounce(JO, sub_type="OnAccountSuppressionList"),
            {**BOUNCED, "hard": True, "by_provider_list": True},
        ),
        ("Bounce", bounce(JO, kind="Transient"), {**BOUNCED, "hard": False}),
        ("Bounce", bounce(JO, kind="Undetermined"), {**BOUNCED, "hard": False}),
        ("Bounce", bounce(JO, kind="Someday"), {**BOUNCED, "hard": False}),
        (
            "Bounce",
            bounce(JO, kind="Transient", sub_type="Suppressed"),
            {**BOUNCED, "hard": False, "by_provider_list": False},
        ),
        ("Complaint", complaint(JO), {"kind": "complained", "smtp_response": None}),
        (
            "DeliveryDelay",
            delay(JO),
            {
                "kind": "deferred",
                "smtp_code": "421",
                "enhanced_code": "4.4.1",
                "smtp_response": "smtp; 421 4.4.1 Unable to connect",
            },
        ),
        ("Reject", REASON, {"kind": "rejected", "smtp_response": "Bad content"}),
        (
            "Rendering Failure",
            UNMADE,
            {"kind": "rejected", "smtp_response": "Attribute is missing"},
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_type_is_read(kind: str, section: Fields, said: Fields) -> None:
    found = told(ses_event(kind, to=[JO], **section))

    assert found["recipient"] == JO
    assert {name: found[name] for name in said} == said


@pytest.mark.parametrize(
    ("kind", "section", "recipients"),
    [
        ("Delivery", delivery(JO, LEE), [JO, LEE]),
        ("Bounce", bounce(KIM), [KIM]),
        ("Complaint", complaint(KIM, LEE), [KIM, LEE]),
        ("DeliveryDelay", delay(LEE), [LEE]),
        ("Reject", REASON, [JO, KIM, LEE]),
        ("Rendering Failure", UNMADE, [JO, KIM, LEE]),
    ],
)
def test_an_event_is_told_of_whom_it_names_and_of_nobody_else(
    kind: str, section: Fields, recipients: list[str]
) -> None:
    found = read(ses_event(kind, to=[JO, KIM, LEE], **section))

    assert [event.recipient for event in found] == recipients
    assert [event.event_id for event in found] == [f"ses:n-1:{r}" for r in recipients]


@pytest.mark.parametrize(
    ("given", "known"),
    [
        ("<Ab-1@Email.AmazonSES.com>", "Ab-1@email.amazonses.com"),
        ("Ab-1@eu-west-1.amazonses.com", "Ab-1@eu-west-1.amazonses.com"),
        ("0102018f-0000-000000", "0102018f-0000-000000"),
    ],
)
def test_a_send_tells_once_which_message_id_the_mail_bears(
    given: str, known: str
) -> None:
    event = ses_event("Send", to=[JO, KIM], rfc_message_id=given, send={})

    found = told(event)

    assert (found["kind"], found["rfc_message_id"]) == ("sent", known)


# --- words that are not as they should be --------------------------------------------


@pytest.mark.parametrize("kind", ["Open", "Click", "Subscription", "", "delivery"])
def test_a_type_that_nobody_asked_for_is_no_event(kind: str) -> None:
    with pytest.raises(NoEvent):
        read(ses_event(kind, **delivery(JO)))


@pytest.mark.parametrize(
    "text",
    [
        "Successfully validated SNS topic for Amazon SES event publishing.",
        "",
        "{",
        "[]",
        "null",
        "{}",
        '{"eventType": "Delivery"}',
        '{"eventType": ["Delivery"], "mail": []}',
        '{"eventType": "Bounce", "bounce": {"bouncedRecipients": [1, null, []]}}',
        '{"eventType": "Delivery", "delivery": {"recipients": "jo@example.net"}}',
        '{"eventType": "Complaint", "complaint": {"complainedRecipients": [{}]}}',
        '{"eventType": "Send", "mail": {"destination": ["jo@example.net"]}}',
        "[" * 100_000,
    ],
)
def test_a_text_without_a_recipient_is_no_event(text: str) -> None:
    with pytest.raises(NoEvent):
        read(text)


@pytest.mark.parametrize(
    "written",
    [JO, " JO@Example.NET ", "Jo <jo@example.net>", '"Jo, the first" <JO@example.net>'],
)
def test_a_recipient_counts_once_however_it_is_written(written: str) -> None:
    found = read(ses_event("Delivery", **delivery(written, JO, "no address")))

    assert [event.recipient for event in found] == [JO]


@pytest.mark.parametrize(
    ("authors", "source", "sender"),
    [
        (
            ["Acme <Ada@acme.example>", "b@acme.example"],
            "x@y.example",
            "ada@acme.example",
        ),
        (["ada@ACME.example"], None, "ada@acme.example"),
        (['"<b@evil.example>" <ada@acme.example>'], None, "ada@acme.example"),
        ([], "Ada@acme.example", "ada@acme.example"),
        (["nobody"], "ada@acme.example", "ada@acme.example"),
        (None, None, ""),
    ],
)
def test_the_sender_is_the_first_author(
    authors: object, source: object, sender: str
) -> None:
    event = ses_event("Delivery", **delivery(JO))
    event["mail"]["commonHeaders"]["from"] = authors
    event["mail"]["source"] = source

    assert told(event)["sender"] == sender


@pytest.mark.parametrize(
    "tags",
    [None, [], {}, {TAG: None}, {TAG: "msg_1"}, {TAG: ["msg_1"]}, {TAG: [7, "x"]}],
)
def test_a_tag_that_is_no_id_of_ours_is_none(tags: object) -> None:
    event = ses_event("Delivery", **delivery(JO))
    event["mail"]["tags"] = tags

    assert told(event)["tag"] is None


@pytest.mark.parametrize(
    ("at", "sent_at", "expected"),
    [
        ("2026-10-09T10:29:00.500+02:00", None, NOW - timedelta(seconds=59.5)),
        ("yesterday", "2026-10-09T08:00:00.000Z", NOW - timedelta(minutes=30)),
        ("2026-10-09T08:29:00", None, PUBLISHED),
        ("1970-01-01T00:00:00.000Z", 5, PUBLISHED),
        ("2026-10-09T08:30:01.000Z", None, PUBLISHED),
        (None, "9999-12-31T23:59:59.000Z", PUBLISHED),
    ],
)
def test_an_instant_that_cannot_be_right_is_replaced(
    at: object, sent_at: object, expected: datetime
) -> None:
    event = ses_event("Delivery", **delivery(JO))
    event["delivery"]["timestamp"] = at
    event["mail"]["timestamp"] = sent_at

    (found,) = read(event)

    assert found.occurred_at == expected


def test_a_refused_mail_was_refused_when_it_was_sent() -> None:
    event = ses_event("Reject", to=[JO], **REASON)
    event["mail"]["timestamp"] = stamp(NOW - timedelta(minutes=1))

    (found,) = read(event)

    assert found.occurred_at == NOW - timedelta(minutes=1)


def test_no_word_keeps_an_event_from_being_stored() -> None:
    event = ses_event("Bounce", **bounce(JO))
    event["mail"]["commonHeaders"]["subject"] = "a\x00b\ud800"
    event["mail"]["messageId"] = "x\x00"
    recipient = event["bounce"]["bouncedRecipients"][0]
    recipient["diagnosticCode"] = "smtp; 550\r\n\x00" + "é" * 5000
    recipient["status"] = {"code": 5}

    found = told(event)

    assert found["subject"] == "a?b?"
    assert found["provider_message_id"] is None
    assert found["smtp_response"] == ("smtp; 550 " + "é" * 512)[:512]
    assert (found["smtp_code"], found["enhanced_code"]) == ("550", None)
