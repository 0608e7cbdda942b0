"""``POST /hooks/ses``: what SNS signed is stored once; what it did not is refused."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.test import Client
from prometheus_client import REGISTRY
from pytest_django import Settings

from core import clock
from core.database import execute
from delivery import received, sns_client
from delivery.models import ProviderEvent, ReceivedBody
from tests.api.test_admin_message import visitor
from tests.support.api import code_of
from tests.support.sns import (
    CERTIFICATE_URL,
    FILE,
    HOST,
    TOPIC,
    Fields,
    Publisher,
    SnsHost,
    answering,
    body_of,
    bounce,
    certificate_pem,
    delivery,
    post,
    rsa_key,
    ses_event,
    sns_host,
    stamp,
)

pytestmark = pytest.mark.django_db

JO, KIM = "jo@example.net", "kim@example.org"
OTHER_TOPIC = "arn:aws:sns:eu-west-1:123456789012:other"


@pytest.fixture(scope="module")
def host_of_the_module() -> Iterator[SnsHost]:
    with sns_host(certificate_pem(rsa_key())) as host:
        yield host


@pytest.fixture
def host(host_of_the_module: SnsHost, settings: Settings) -> SnsHost:
    """SNS, which nobody has asked yet, and a deployment that has a topic."""
    settings.PM_SES_SNS_TOPIC_ARN = TOPIC
    sns_client.forget_certificates()
    host_of_the_module.forget()
    return host_of_the_module


@pytest.fixture
def publisher(host: SnsHost) -> Publisher:
    return Publisher()


def delivered(publisher: Publisher, *recipients: str, **changes: Any) -> Fields:
    """Return a notification of a delivery."""
    event = ses_event("Delivery", **delivery(*(recipients or (JO,))))
    return publisher.notification(event, **changes)


def counted(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0


def stored() -> tuple[int, int]:
    """Return how many bodies and how many events stand in the database."""
    return ReceivedBody.objects.count(), ProviderEvent.objects.count()


# --- what is stored ------------------------------------------------------------------


@pytest.mark.parametrize(
    "media_type",
    ["text/plain; charset=UTF-8", "text/plain", "application/json", "TEXT/PLAIN"],
)
def test_a_notification_is_stored_whole_and_is_due_at_once(
    client: Client, publisher: Publisher, media_type: str
) -> None:
    told = delivered(publisher, JO, KIM)

    answer = client.post("/hooks/ses", body_of(told), content_type=media_type)

    assert (answer.status_code, answer.content) == (200, b"")
    rows = ProviderEvent.objects.order_by("event_id")
    assert [row.event_id for row in rows] == [
        f"ses:{told['MessageId']}:{one}" for one in (JO, KIM)
    ]
    assert {(row.source, row.state) for row in rows} == {("ses", "pending")}
    assert all(row.due_at and row.due_at <= clock.database_now() for row in rows)


def test_the_body_is_kept_sealed_as_it_came(
    client: Client, publisher: Publisher
) -> None:
    told = delivered(publisher)

    assert post(client, told).status_code == 200

    row = ReceivedBody.objects.get()
    assert (row.source, row.posted_id) == ("ses", told["MessageId"])
    assert JO not in row.sealed
    assert received.opened(row.source, row.posted_id, row.sealed) == body_of(told)


def test_a_notification_that_comes_again_is_stored_once(
    client: Client, publisher: Publisher
) -> None:
    told = delivered(publisher, JO, KIM)

    for _ in range(46):
        assert post(client, told).status_code == 200

    assert stored() == (1, 2)


def test_events_of_one_mail_under_two_ids_are_both_stored(
    client: Client, publisher: Publisher
) -> None:
    for _ in range(2):
        assert post(client, delivered(publisher)).status_code == 200

    assert stored() == (2, 2)


@pytest.mark.parametrize(
    "text",
    [
        "Successfully validated SNS topic for Amazon SES event publishing.",
        json.dumps(ses_event("Open", open={"ipAddress": "192.0.2.1"})),
        json.dumps({"eventType": "Bounce", "mail": {}, "bounce": {}}),
    ],
)
def test_what_is_no_event_here_is_acknowledged_kept_and_counted(
    client: Client, publisher: Publisher, text: str
) -> None:
    before = counted("delivery_unknown_type_total")

    assert post(client, publisher.notification(text)).status_code == 200

    assert stored() == (1, 0)
    assert counted("delivery_unknown_type_total") == before + 1


def test_no_key_is_asked_for_and_a_wrong_one_does_no_harm(
    client: Client, publisher: Publisher
) -> None:
    answer = post(client, delivered(publisher), Authorization="Bearer pmk_live_x_y")

    assert answer.status_code == 200


def test_a_folder_of_certificates_spares_the_call(
    client: Client,
    publisher: Publisher,
    host: SnsHost,
    settings: Settings,
    tmp_path: Path,
) -> None:
    (tmp_path / FILE).write_bytes(host.pem)
    settings.PM_SNS_CERT_DIR = str(tmp_path)

    assert post(client, delivered(publisher)).status_code == 200
    assert host.looked_up == []


# --- what is refused -----------------------------------------------------------------

AN_HOUR_AGO = timedelta(seconds=3700)
Forgery = Callable[[Publisher], Fields | bytes]
UNSPOKEN: dict[str, tuple[str, Forgery]] = {
    "no JSON": ("malformed", lambda p: b"nothing of yours"),
    "a list": ("malformed", lambda p: b"[]"),
    "a name twice": ("malformed", lambda p: b'{"Type": "x", "Type": "x"}'),
    "an event that SNS did not wrap": (
        "malformed",
        lambda p: json.dumps(ses_event("Delivery", **delivery(JO))).encode(),
    ),
    "an unknown type": ("type", lambda p: {**delivered(p), "Type": "Other"}),
    "version 1": ("version", lambda p: delivered(p, SignatureVersion="1")),
    "another topic": ("topic", lambda p: delivered(p, TopicArn=OTHER_TOPIC)),
    "a confirmation of another topic": (
        "topic",
        lambda p: p.confirmation(TopicArn=OTHER_TOPIC),
    ),
    "a certificate on S3": (
        "certificate_url",
        lambda p: delivered(p, SigningCertURL=f"https://s3.amazonaws.com/x/{FILE}"),
    ),
    "a look-alike host": (
        "certificate_url",
        lambda p: delivered(p, SigningCertURL=f"https://{HOST}.evil.example/{FILE}"),
    ),
    "without TLS": (
        "certificate_url",
        lambda p: delivered(p, SigningCertURL=f"http://{HOST}/{FILE}"),
    ),
    "with a user": (
        "certificate_url",
        lambda p: delivered(p, SigningCertURL=f"https://sns@{HOST}/{FILE}"),
    ),
    "with a port": (
        "certificate_url",
        lambda p: delivered(p, SigningCertURL=f"https://{HOST}:443/{FILE}"),
    ),
    "a confirmation at the machine's metadata": (
        "subscribe_url",
        lambda p: p.confirmation(SubscribeURL="https://169.254.169.254/latest/"),
    ),
    "a confirmation elsewhere": (
        "subscribe_url",
        lambda p: p.confirmation(SubscribeURL="https://evil.example/"),
    ),
    "an old message": (
        "timestamp",
        lambda p: delivered(p, Timestamp=stamp(datetime.now(UTC) - AN_HOUR_AGO)),
    ),
    "a message of tomorrow": (
        "timestamp",
        lambda p: delivered(p, Timestamp=stamp(datetime.now(UTC) + AN_HOUR_AGO)),
    ),
    "no signature": ("signature", lambda p: {**delivered(p), "Signature": "***"}),
}
"""Forgeries that are seen without a certificate, and the reason that is counted."""


def assert_refused(answer: Any, reason: str, *, before: float) -> None:
    assert (answer.status_code, code_of(answer)) == (403, "invalid_signature")
    assert counted("ses_sns_rejected_total", reason=reason) == before + 1
    assert stored() == (0, 0)


@pytest.mark.parametrize("name", UNSPOKEN)
def test_a_forgery_is_refused_and_no_connection_is_made(
    client: Client, publisher: Publisher, host: SnsHost, name: str
) -> None:
    """Row 18, R20 and R21."""
    reason, forged = UNSPOKEN[name]
    before = counted("ses_sns_rejected_total", reason=reason)

    answer = post(client, forged(publisher))

    assert_refused(answer, reason, before=before)
    assert (host.connections, host.looked_up) == (0, [])


@pytest.mark.parametrize("name", ["Message", "MessageId", "Timestamp", "Signature"])
def test_a_changed_message_is_refused_and_its_certificate_alone_asked_for(
    client: Client, publisher: Publisher, host: SnsHost, name: str
) -> None:
    before = counted("ses_sns_rejected_total", reason="signature")
    told, other = delivered(publisher), delivered(publisher, KIM)
    other["Timestamp"] = stamp(datetime.now(UTC) - timedelta(minutes=1))

    answer = post(client, {**told, name: other[name]})

    assert_refused(answer, "signature", before=before)
    assert host.paths == [f"/{FILE}"]


def test_a_changed_confirmation_is_not_followed(
    client: Client, publisher: Publisher, host: SnsHost
) -> None:
    before = counted("ses_sns_rejected_total", reason="signature")
    asked = publisher.confirmation()
    asked["SubscribeURL"] += "&Endpoint=evil"

    answer = post(client, asked)

    assert_refused(answer, "signature", before=before)
    assert host.paths == [f"/{FILE}"]


@pytest.mark.parametrize(
    ("status", "location"), [(404, ""), (302, f"https://evil.example/{FILE}")]
)
def test_a_certificate_that_is_not_there_is_refused(
    client: Client, publisher: Publisher, host: SnsHost, status: int, location: str
) -> None:
    before = counted("ses_sns_rejected_total", reason="certificate")
    host.acts.append(answering(status, host.pem, Location=location))

    answer = post(client, delivered(publisher))

    assert_refused(answer, "certificate", before=before)
    assert host.looked_up == [f"{HOST}:443"]


def test_a_certificate_that_has_ended_is_refused(
    client: Client, publisher: Publisher, host: SnsHost
) -> None:
    before = counted("ses_sns_rejected_total", reason="certificate")
    ended = certificate_pem(rsa_key(), ends=timedelta(seconds=-1))
    host.acts.append(answering(200, ended))

    assert_refused(post(client, delivered(publisher)), "certificate", before=before)


def test_without_a_topic_everything_is_refused(
    client: Client, publisher: Publisher, host: SnsHost, settings: Settings
) -> None:
    settings.PM_SES_SNS_TOPIC_ARN = ""
    before = counted("ses_sns_rejected_total", reason="topic")

    assert_refused(post(client, delivered(publisher)), "topic", before=before)
    assert host.looked_up == []


def test_a_header_that_names_another_type_is_refused(
    client: Client, publisher: Publisher
) -> None:
    before = counted("ses_sns_rejected_total", reason="type")
    named = {"x-amz-sns-message-type": "SubscriptionConfirmation"}

    answer = post(client, delivered(publisher), **named)

    assert_refused(answer, "type", before=before)


def test_a_body_that_is_too_large_is_not_read(
    client: Client, publisher: Publisher, host: SnsHost
) -> None:
    answer = post(client, delivered(publisher, Padding="x" * 2**20))

    assert (answer.status_code, code_of(answer)) == (413, "payload_too_large")
    assert (stored(), host.looked_up) == ((0, 0), [])


def test_a_body_of_another_kind_is_refused(
    client: Client, publisher: Publisher
) -> None:
    body = body_of(delivered(publisher))

    answer = client.post("/hooks/ses", body, content_type="text/html")

    assert (answer.status_code, code_of(answer)) == (400, "invalid_request")
    assert client.get("/hooks/ses").status_code == 405


def test_a_refusal_tells_a_forger_nothing(client: Client, publisher: Publisher) -> None:
    said = set()
    for name in ("version 1", "another topic", "an old message", "a look-alike host"):
        error = post(client, UNSPOKEN[name][1](publisher)).json()["error"]
        del error["request_id"]
        said.add(json.dumps(error))

    assert len(said) == 1


# --- subscriptions -------------------------------------------------------------------


def test_a_subscription_of_our_topic_is_confirmed_once_it_is_proved(
    client: Client, publisher: Publisher, host: SnsHost
) -> None:
    asked = publisher.confirmation()

    assert post(client, asked).status_code == 200

    path = asked["SubscribeURL"].removeprefix(f"https://{HOST}")
    assert host.paths == [f"/{FILE}", path]
    assert stored() == (1, 0)


@pytest.mark.parametrize("status", [400, 500, 302])
def test_a_subscription_that_could_not_be_confirmed_comes_again(
    client: Client, publisher: Publisher, host: SnsHost, status: int
) -> None:
    host.acts += [
        answering(200, host.pem),
        answering(status, Location="https://evil.example/"),
    ]
    asked = publisher.confirmation()

    answer = post(client, asked)
    assert (answer.status_code, code_of(answer)) == (500, "internal_error")
    assert post(client, asked).status_code == 200

    assert len(host.paths) == 3
    assert set(host.looked_up) == {f"{HOST}:443"}


def test_an_ended_subscription_is_acknowledged_and_nobody_is_called(
    client: Client, publisher: Publisher, host: SnsHost
) -> None:
    asked = publisher.confirmation("UnsubscribeConfirmation")

    assert post(client, asked).status_code == 200
    assert host.paths == [f"/{FILE}"]


# --- what fails on our side ----------------------------------------------------------


def test_sns_comes_again_while_its_certificate_cannot_be_had(
    client: Client, publisher: Publisher, host: SnsHost
) -> None:
    host.acts.append(answering(503))
    told = delivered(publisher)

    answer = post(client, told)
    assert (answer.status_code, code_of(answer)) == (500, "internal_error")
    assert stored() == (0, 0)

    assert post(client, told).status_code == 200
    assert stored() == (1, 1)


@pytest.mark.django_db(transaction=True)
def test_with_the_database_away_it_is_500_and_nothing_is_lost(
    client: Client, publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = delivered(publisher)
    connection.close()
    with monkeypatch.context() as patched:
        patched.setitem(connection.settings_dict, "PORT", 1)
        with pytest.raises(OperationalError):
            connection.ensure_connection()

        answer = post(client, told)

    assert (answer.status_code, code_of(answer)) == (500, "internal_error")
    assert stored() == (0, 0)
    assert post(client, told).status_code == 200
    assert stored() == (1, 1)


@pytest.mark.django_db(transaction=True)
def test_neither_body_nor_event_is_stored_without_the_other(
    client: Client, publisher: Publisher
) -> None:
    told = delivered(publisher)
    execute("ALTER TABLE provider_events ADD CONSTRAINT none_now CHECK (false)")
    try:
        answer = post(client, told)
    finally:
        execute("ALTER TABLE provider_events DROP CONSTRAINT none_now")

    assert (answer.status_code, code_of(answer)) == (500, "internal_error")
    assert stored() == (0, 0)
    assert post(client, told).status_code == 200
    assert stored() == (1, 1)


# --- a person's look, and the end ----------------------------------------------------


def test_a_person_with_the_permission_reads_the_body_and_nobody_else(
    client: Client, publisher: Publisher
) -> None:
    event = ses_event("Bounce", **bounce(JO))
    assert post(client, publisher.notification(event)).status_code == 200
    page = f"/admin/delivery/receivedbody/{ReceivedBody.objects.get().pk}/change/"

    shown = visitor("view_receivedbody").get(page)

    assert JO in shown.content.decode()
    assert "pm1." not in shown.content.decode()
    assert client.get(page).status_code == 302


def test_a_body_is_forgotten_after_30_days(
    client: Client, publisher: Publisher
) -> None:
    assert post(client, delivered(publisher)).status_code == 200
    clock.offset += timedelta(days=30, seconds=-60)
    assert received.purge_bodies() == 0

    clock.offset += timedelta(seconds=61)

    assert received.purge_bodies() == 1
    assert stored() == (0, 1)


def test_the_log_holds_neither_address_nor_subject(
    client: Client, publisher: Publisher, capsys: pytest.CaptureFixture[str]
) -> None:
    told = delivered(publisher)
    post(client, told)
    post(client, {**told, "Message": "forged"})
    post(client, publisher.notification(json.dumps(ses_event("Open"))))
    post(client, publisher.confirmation("UnsubscribeConfirmation"))

    said = capsys.readouterr().err

    assert '"sns_rejected"' in said
    assert '"ses_event_unknown"' in said
    for secret in (JO, "Your booking", CERTIFICATE_URL, told["Signature"]):
        assert secret not in said
