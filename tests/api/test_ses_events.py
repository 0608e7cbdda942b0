"""From SNS's post to the recipient's status: every row of the table, and a thousand."""

import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from delivery.models import Attempt, ProviderEvent
from delivery.services import apply_event
from delivery.statuses import AttemptResult
from mailboxes.models import Event, Message
from mailboxes.statuses import MessageStatus, Provider
from outbound.transports.base import Accepted
from suppressions.models import Suppression
from tests.factories import QueuedMessageFactory
from tests.services.conftest import assert_units_add_up, events_of, statuses
from tests.support.scripted import ScriptedTransport, work
from tests.support.sns import (
    FILE,
    TOPIC,
    Fields,
    Publisher,
    bounce,
    certificate_pem,
    complaint,
    delay,
    delivery,
    post,
    rsa_key,
    ses_event,
)

pytestmark = pytest.mark.django_db

A, B, C = "a@example.net", "b@example.net", "c@example.net"
SES_ID = "0102018f-7777-000000"
REASON: Fields = {"reject": {"reason": "Bad content"}}
UNMADE: Fields = {"failure": {"templateName": "x", "errorMessage": "unmade"}}


@pytest.fixture
def publisher(settings: Settings, tmp_path: Path) -> Publisher:
    """An SNS whose certificate lies in the folder, so that nobody is called."""
    (tmp_path / FILE).write_bytes(certificate_pem(rsa_key()))
    settings.PM_SNS_CERT_DIR = str(tmp_path)
    settings.PM_SES_SNS_TOPIC_ARN = TOPIC
    return Publisher()


def sent(*recipients: str, ses_id: str = SES_ID) -> Message:
    """Return a message that SES has taken."""
    message = QueuedMessageFactory.create(recipients=recipients or (A,))
    work(message.public_id, ScriptedTransport([Accepted(ses_id)]))
    Attempt.objects.filter(message=message).update(
        provider=Provider.SES, rfc_message_id=None
    )
    message.refresh_from_db()
    return message


def said_of(
    message: Message, kind: str, section: Mapping[str, Any], **mail: Any
) -> Fields:
    """Return an event of a message, as SES tells it."""
    named: dict[str, Any] = {
        "sender": message.from_address,
        "to": sorted(statuses(message)),
        "message_id": message.provider_message_id or SES_ID,
        "subject": message.subject,
        "tag": message.public_id,
    }
    return ses_event(kind, **{**named, **mail}, **section)


def tell(publisher: Publisher, *events: Fields) -> list[str | None]:
    """Post events and apply all that is pending, as the worker would."""
    for event in events:
        assert post(Client(), publisher.notification(event)).status_code == 200
    pending = ProviderEvent.objects.filter(state="pending").order_by("id")
    return [apply_event(row) for row in list(pending.values_list("id", flat=True))]


# --- the table -----------------------------------------------------------------------


@pytest.mark.parametrize("with_tag", [True, False], ids=["tag", "provider id"])
@pytest.mark.parametrize(
    ("kind", "section", "status", "suppressed"),
    [
        ("Delivery", delivery(A), "delivered", None),
        ("Bounce", bounce(A), "bounced", "hard_bounce"),
        ("Bounce", bounce(A, sub_type="Suppressed"), "bounced", "provider"),
        (
            "Bounce",
            bounce(A, sub_type="OnAccountSuppressionList"),
            "bounced",
            "provider",
        ),
        ("Bounce", bounce(A, kind="Transient"), "bounced", None),
        ("Bounce", bounce(A, kind="Undetermined"), "bounced", None),
        ("Complaint", complaint(A), "complained", "complaint"),
        ("DeliveryDelay", delay(A), "deferred", None),
        ("Reject", REASON, "rejected", None),
        ("Rendering Failure", UNMADE, "rejected", None),
    ],
)
def test_every_type_moves_its_recipient(
    publisher: Publisher,
    kind: str,
    section: Fields,
    status: str,
    suppressed: str | None,
    with_tag: bool,
) -> None:
    message = sent()
    tag = message.public_id if with_tag else None

    assert tell(publisher, said_of(message, kind, section, tag=tag)) == ["applied"]

    message.refresh_from_db()
    assert statuses(message) == {A: status}
    assert message.status == status
    reasons = list(Suppression.objects.values_list("reason", flat=True))
    assert reasons == ([suppressed] if suppressed else [])
    assert_units_add_up(message)


@pytest.mark.parametrize("with_tag", [True, False], ids=["tag", "provider id"])
def test_a_send_teaches_the_message_id_and_changes_nothing_else(
    publisher: Publisher, with_tag: bool
) -> None:
    message = sent(A, B)
    before = events_of(message)
    told = said_of(
        message,
        "Send",
        {"send": {}},
        rfc_message_id=f"<{SES_ID}@eu-west-1.amazonses.com>",
        tag=message.public_id if with_tag else None,
    )

    assert tell(publisher, told, told) == ["applied", "applied"]

    message.refresh_from_db()
    assert message.rfc_message_id == f"{SES_ID}@eu-west-1.amazonses.com"
    (attempt,) = message.attempts.all()
    assert attempt.rfc_message_id == message.rfc_message_id
    assert statuses(message) == {A: "submitted", B: "submitted"}
    assert (message.status, events_of(message)) == (MessageStatus.SUBMITTED, before)


def test_a_send_leaves_an_uncertain_message_to_other_evidence(
    publisher: Publisher,
) -> None:
    message = sent()
    message.deliveries.update(status="uncertain")
    message.attempts.update(result=AttemptResult.UNCERTAIN)
    Message.objects.filter(key=message.key).update(
        status="uncertain", provider_message_id=None
    )

    told = said_of(message, "Send", {"send": {}}, rfc_message_id="<x@ses.example>")
    assert tell(publisher, told) == ["applied"]

    message.refresh_from_db()
    assert message.status == MessageStatus.UNCERTAIN
    assert message.rfc_message_id == "x@ses.example"


# --- what others were bitten by ------------------------------------------------------


def test_of_three_recipients_the_one_that_bounced_is_suppressed(
    publisher: Publisher,
) -> None:
    message = sent(A, B, C)

    tell(publisher, said_of(message, "Bounce", bounce(B)))

    assert statuses(message) == {A: "submitted", B: "bounced", C: "submitted"}
    assert Suppression.objects.get().address_hint == "b***@example.net"


def test_a_delivery_and_then_a_complaint_are_both_applied(
    publisher: Publisher,
) -> None:
    """R18: one mail, two notifications."""
    message = sent()

    tell(publisher, said_of(message, "Delivery", delivery(A)))
    tell(publisher, said_of(message, "Complaint", complaint(A)))

    assert events_of(message)[-3:] == [
        "message.delivered",
        "message.complained",
        "suppression.created",
    ]


def test_one_notification_posted_46_times_is_one_transition_and_one_event(
    publisher: Publisher, client: Client
) -> None:
    message = sent()
    told = publisher.notification(said_of(message, "Delivery", delivery(A)))

    for _ in range(46):
        assert post(client, told).status_code == 200

    assert tell(publisher) == ["applied"]
    assert events_of(message).count("message.delivered") == 1


def test_an_event_of_a_mail_that_is_not_ours_does_no_harm(
    publisher: Publisher,
) -> None:
    message = sent()

    stranger = said_of(message, "Bounce", bounce(A), sender="x@elsewhere.example")
    unknown = said_of(message, "Bounce", bounce(A), tag=None, message_id="unknown")

    assert sorted(map(str, tell(publisher, stranger, unknown))) == [
        "pending",
        "unroutable",
    ]
    assert statuses(message) == {A: "submitted"}
    assert not Suppression.objects.exists()


# --- a thousand ----------------------------------------------------------------------

MESSAGES, RECIPIENTS, FORGED = 25, 20, 50


def thousand(messages: list[Message]) -> Iterator[Fields]:
    """Yield two events of each recipient: a delay, and the delivery after it."""
    for message in messages:
        for recipient in sorted(statuses(message)):
            yield said_of(message, "DeliveryDelay", delay(recipient))
            yield said_of(message, "Delivery", delivery(recipient))


def shuffled_in_part(told: list[Fields], *, chance: random.Random) -> list[Fields]:
    """Swap a fifth of the pairs, and post a fifth of all once more, anywhere."""
    pairs = [told[n : n + 2] for n in range(0, len(told), 2)]
    for pair in chance.sample(pairs, len(pairs) // 5):
        pair.reverse()
    found = [one for pair in pairs for one in pair]
    for again in chance.sample(told, len(told) // 5):
        found.insert(chance.randrange(found.index(again) + 1, len(found) + 1), again)
    return found


@pytest.mark.timeout(300)
def test_a_thousand_events_are_applied_once_each_whatever_comes_with_them(
    publisher: Publisher, client: Client
) -> None:
    # Given a thousand signed events, some twice, some out of order, some forged
    chance = random.Random(20)  # noqa: S311  any order will do
    messages = [
        sent(*(f"r{n}@example.net" for n in range(RECIPIENTS)), ses_id=f"ses-{m}")
        for m in range(MESSAGES)
    ]
    told = [publisher.notification(event) for event in thousand(messages)]
    posted = shuffled_in_part(told, chance=chance)
    assert (len(told), len(posted)) == (1000, 1200)
    forger = Publisher(rsa_key(name="forger"))
    for forged in chance.sample(told, FORGED):
        # the bounce of somebody who was never told of one
        bounced = json.loads(forged["Message"])
        recipient = chance.choice([f"r{n}@example.net" for n in range(RECIPIENTS)])
        bounced |= {"eventType": "Bounce", **bounce(recipient)}
        posted.insert(chance.randrange(len(posted)), forger.notification(bounced))

    # When all of them are posted, and the worker has done its work
    answers = Counter(post(client, one).status_code for one in posted)
    assert answers == {200: 1200, 403: FORGED}
    assert ProviderEvent.objects.count() == 1000
    applied = Counter(tell(publisher))

    # Then each recipient is delivered, and each change was told once
    assert applied == {"applied": 1000}
    assert not Suppression.objects.exists()
    for message in messages:
        message.refresh_from_db()
        assert message.status == MessageStatus.DELIVERED
        assert set(statuses(message).values()) == {"delivered"}
        assert_units_add_up(message)
        found = Event.objects.filter(identity=message.identity)
        by_type = Counter(
            (row.type, row.payload["data"].get("recipient")) for row in found
        )
        for n in range(RECIPIENTS):
            assert by_type["message.delivered", f"r{n}@example.net"] == 1
            assert by_type["message.deferred", f"r{n}@example.net"] <= 1
