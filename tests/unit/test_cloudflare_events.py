"""What Cloudflare's queue says, read: every type, every form, and whatever is none."""

import base64
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from delivery.cloudflare_events import NoEvent, event_of
from delivery.events import DeliveryEvent
from tests.support.cloudflare_queue import KINDS, hostile, said

NOW = datetime.now(UTC) + timedelta(days=1)
CAME = NOW - timedelta(hours=1)


def read(
    body: object, *, published_at: datetime | None = CAME
) -> DeliveryEvent | NoEvent:
    return event_of(body, published_at=published_at, now=NOW)


def in_base64(body: object) -> str:
    return base64.b64encode(json.dumps(body).encode()).decode()


def event(kind: str, **changes: object) -> DeliveryEvent:
    found = read(in_base64(said(kind, **changes)))
    assert isinstance(found, DeliveryEvent)
    return found


# --- the six types -------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_each_type_is_an_event_of_its_kind(kind: str) -> None:
    body = said(kind)

    found = read(in_base64(body))

    assert isinstance(found, DeliveryEvent)
    assert (found.source, found.kind) == ("cloudflare", kind)
    assert found.event_id == body["payload"]["eventId"]
    assert found.provider_message_id == "0101018f7d0c4d9a-msg-deadbeef"
    assert (found.sender, found.recipient) == (
        "bookings@acme.example",
        "jo@example.net",
    )
    assert found.occurred_at.isoformat() == body["metadata"]["eventTimestamp"].replace(
        "Z", "+00:00"
    )
    assert found.tag is None


@pytest.mark.parametrize(
    ("kind", "codes", "response"),
    [
        ("delivered", ("250", "2.0.0"), "250 2.0.0 OK 1714820445 - gsmtp"),
        ("deferred", ("451", "4.2.0"), "451 4.2.0 Temporary mailbox error"),
        ("bounced", ("550", "5.1.1"), "550 5.1.1 User unknown"),
        ("failed", (None, None), "delivery_failed"),
        ("rejected", (None, None), "Recipient is suppressed"),
        ("complained", (None, None), None),
    ],
)
def test_each_type_keeps_the_words_that_it_has(
    kind: str, codes: tuple[str | None, str | None], response: str | None
) -> None:
    found = event(kind)

    assert (found.smtp_code, found.enhanced_code) == codes
    assert found.smtp_response == response


@pytest.mark.parametrize(
    ("kind", "bounce", "hard"),
    [
        ("bounced", {"type": "hard"}, True),
        ("bounced", {"type": "soft"}, False),
        ("bounced", {"type": "of another version"}, False),
        ("bounced", None, False),
        ("deferred", {"type": "hard"}, False),
    ],
)
def test_only_a_bounce_that_is_called_hard_is_hard(
    kind: str, bounce: Mapping[str, str] | None, hard: bool
) -> None:
    assert event(kind, bounce=bounce).hard is hard


def test_a_complaint_comes_without_a_subject() -> None:
    assert event("complained").subject is None
    assert event("delivered").subject == "Your booking"


def test_a_code_may_be_a_number() -> None:
    delivery = {"smtpStatusCode": 550, "smtpEnhancedStatusCode": None}

    found = event("bounced", delivery=delivery)

    assert (found.smtp_code, found.enhanced_code) == ("550", None)


# --- one form ------------------------------------------------------------------------


def test_addresses_are_in_their_one_form() -> None:
    found = event(
        "delivered", sender="Bookings@ACME.example.", recipient="<JO@bücher.example>"
    )

    assert found.sender == "bookings@acme.example"
    assert found.recipient == "jo@xn--bcher-kva.example"


def test_a_response_is_one_line_of_at_most_512_characters() -> None:
    long = "550-5.1.1 no\r\n550 \x00such\ud800 user " + "é" * 600

    kept = event("bounced", delivery={"smtpResponse": long}).smtp_response

    assert kept is not None
    assert kept.startswith("550-5.1.1 no 550 such user é")
    assert len(kept) == 512


def test_a_subject_is_what_was_sent_but_for_what_cannot_be_stored() -> None:
    subject = "  Grüße \u200d \u2028 \x1f 👩‍👩‍👦 "

    assert event("delivered", subject=subject).subject == subject
    assert event("delivered", subject="a\x00b\ud800").subject == "a?b?"


@pytest.mark.parametrize("message_id", [None, "", 7, "a b", "\x00", "x" * 3000])
def test_an_id_that_can_be_none_is_none(message_id: object) -> None:
    assert event("delivered", messageId=message_id).provider_message_id is None


@pytest.mark.parametrize(
    "form",
    [
        in_base64,
        json.dumps,
        lambda body: f" \n{json.dumps(body)}",
        lambda body: json.dumps(body, ensure_ascii=False),
        lambda body: body,
    ],
    ids=["base64", "text", "padded", "utf-8", "object"],
)
def test_a_body_may_come_in_any_of_the_forms(form: Any) -> None:
    found = read(form(said("delivered", subject="Grüße")))

    assert isinstance(found, DeliveryEvent)
    assert found.subject == "Grüße"


# --- its instant ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "stamp",
    [
        *(None, 7, "", "yesterday", "2026-11-29T10:00:00", "0001-01-01T00:00:00+14:00"),
        *("0001-01-01T00:00:00Z", "9999-12-31T23:59:59-14:00", "9999-01-01T00:00:00Z"),
    ],
)
def test_an_instant_that_cannot_be_right_is_when_it_came(stamp: object) -> None:
    body = said("delivered")
    body["metadata"]["eventTimestamp"] = stamp

    found = read(body)
    without = read(body, published_at=None)
    absurd = read(body, published_at=datetime(1970, 1, 1, tzinfo=UTC))

    assert isinstance(found, DeliveryEvent)
    assert found.occurred_at == CAME
    for other in (without, absurd):
        assert isinstance(other, DeliveryEvent)
        assert other.occurred_at == NOW


# --- what is no event ----------------------------------------------------------------


@pytest.mark.parametrize(
    "kind",
    ["opened", "sent", "queued", "", "Delivered", "delivered ", "delivered.v2", "\x00"],
)
def test_a_type_that_is_not_known_is_said_to_be(kind: str) -> None:
    assert read(in_base64(said(kind))) is NoEvent.UNKNOWN_TYPE


def test_the_event_of_another_product_is_of_a_type_that_is_not_known() -> None:
    bucket = {"type": "cf.r2.bucket.created", "payload": {"name": "delivered"}}

    assert read(in_base64(bucket)) is NoEvent.UNKNOWN_TYPE
    assert read(in_base64({"type": "delivered"})) is NoEvent.UNKNOWN_TYPE


UNNAMED: tuple[object, ...] = (None, "", 7, "a b", "x" * 256, "\x00", "\ud800", "é")
UNADDRESSED: tuple[object, ...] = (None, "", 7, [], "<>", "jo", "a@b@", "é@x.example")


@pytest.mark.parametrize(
    "body",
    [
        *(None, 7, True, [], {}, "", "hello", "====", "{", "[]", '{"type": 7}'),
        *("é", "\ud800", in_base64(7), in_base64([said("delivered")]), "W3sid"),
        base64.b64encode(b"\xff\xfe\x00").decode(),
        base64.b64encode(b"[" * 90_000).decode(),
        '{"type":' * 20_000,
        '{"type": ' + "9" * 5000 + "}",
        *(said("delivered", eventId=bad) for bad in UNNAMED),
        *(said("delivered", recipient=bad) for bad in UNADDRESSED),
        *(said("delivered", sender=bad) for bad in UNADDRESSED),
        {"type": "cf.email.sending.message.delivered"},
        {"type": "cf.email.sending.message.delivered", "payload": []},
    ],
)
def test_what_does_not_have_the_form_is_unreadable(body: object) -> None:
    assert read(body) is NoEvent.UNREADABLE


UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def test_whatever_stands_in_a_field_the_inbox_can_store_what_comes_of_it() -> None:
    found = [read(form(body)) for body in hostile() for form in (in_base64, dict)]

    events = [each for each in found if isinstance(each, DeliveryEvent)]
    assert 0 < len(events) < len(found)
    for each in events:
        texts = [text for text in each.payload().values() if isinstance(text, str)]
        assert not any(map(UNSTORABLE.search, [each.event_id, *texts]))
        assert len(each.event_id) <= 255
        assert len(each.smtp_response or "") <= 512
        assert each.occurred_at <= NOW
