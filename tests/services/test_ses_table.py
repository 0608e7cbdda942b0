"""Each row of the table for SES, from a claim to its record, over real HTTP.

After each of them: one request was made, and a late second ring makes no other.
"""

import json
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from core import objects
from core.clock import database_now
from delivery.models import Attempt, Delivery, OutboundState
from domains.models import Domain
from mailboxes.models import Alert, Event, Message
from mailboxes.statuses import MessageStatus
from outbound.deliver import deliver
from outbound.transports.ses_answers import ERRORS
from tests.services.conftest import assert_units_add_up, events_of, statuses
from tests.support.queued import queued_for
from tests.support.ses_server import (
    KEY_ID,
    PATH,
    Act,
    SesServer,
    accept,
    answering,
    drip,
    half_an_answer,
    hang,
    refusing,
    reset_after_the_body,
    reset_before_the_body,
)

pytestmark = pytest.mark.django_db
A, B, C = "a@example.net", "b@example.net", "c@example.net"
LOST, TIMEOUT = "transport_connection_lost", "transport_timeout"


def _delivered(ses: SesServer, act: Act, *recipients: str) -> Message:
    """Ring a message twice while SES does this; one request may be seen."""
    message = queued_for("ses", *recipients)
    ses.acts.append(act)
    for _ in range(2):
        deliver(message.public_id)
    assert ses.requests == Attempt.objects.count() == 1
    message.refresh_from_db()
    return message


# --- accepted ------------------------------------------------------------------------


def test_200_submits_under_the_id_that_ses_gave(ses: SesServer) -> None:
    message = queued_for("ses", A, B)

    for _ in range(2):
        deliver(message.public_id)

    message.refresh_from_db()
    (mail,) = ses.mails
    assert (message.status, message.provider) == (MessageStatus.SUBMITTED, "ses")
    assert message.provider_message_id == mail.id
    assert statuses(message) == {A: "submitted", B: "submitted"}
    assert events_of(message) == ["message.sent"]
    assert Event.objects.get().payload["data"]["provider_message_id"] == mail.id
    attempt = Attempt.objects.get()
    assert (attempt.result, attempt.phase) == ("accepted", "answered")
    assert attempt.provider_message_id == mail.id
    assert not OutboundState.objects.exists()
    assert_units_add_up(message)


def test_the_composed_bytes_go_out_with_tag_and_configuration_set(
    ses: SesServer,
) -> None:
    message = queued_for("ses")

    deliver(message.public_id)

    (mail,) = ses.mails
    assert ses.paths == [PATH]
    assert mail.content == objects.get(message.raw_key or "")
    assert mail.sender == message.from_address
    assert mail.tags == {"pylota_message": message.public_id}
    assert mail.configuration_set == "pylota-mail"


def test_without_a_configuration_set_none_is_named(
    ses: SesServer, settings: Any
) -> None:
    settings.PM_SES_CONFIGURATION_SET = ""

    deliver(queued_for("ses").public_id)

    assert ses.mails[0].configuration_set is None


def test_the_envelope_holds_each_recipient_that_is_still_queued_bcc_among_them(
    ses: SesServer,
) -> None:
    # Given four recipients, one of whom is set aside
    message = queued_for("ses", A, B, C, "d@example.net")
    Delivery.objects.filter(address=B).update(field="cc")
    Delivery.objects.filter(address=C).update(field="bcc")
    Delivery.objects.filter(address="d@example.net").update(status="suppressed")

    deliver(message.public_id)

    (mail,) = ses.mails
    assert mail.destination == {
        "ToAddresses": [A],
        "CcAddresses": [B],
        "BccAddresses": [C],
    }
    assert b"bcc" not in mail.content.lower()


def test_the_message_id_is_unknown_until_ses_tells_it(ses: SesServer) -> None:
    """SES puts its own Message-ID in the place of ours."""
    message = _delivered(ses, accept)

    assert message.rfc_message_id is None
    assert Attempt.objects.get().rfc_message_id is None


# --- refused for good ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Refusal:
    """A typed answer, and what the message is told of it."""

    status: int
    code: str
    reason: str = "provider_validation"
    issue: str | None = None


REFUSALS = (
    Refusal(400, "MessageRejected"),
    Refusal(400, "BadRequestException"),
    Refusal(403, "AccessDeniedException"),
    Refusal(413, "RequestTooLargeException"),
    Refusal(
        400,
        "MailFromDomainNotVerifiedException",
        "sender_domain_unavailable",
        "mail_from_failed",
    ),
    Refusal(
        404,
        "NotFoundException",
        "sender_domain_unavailable",
        "ses_identity_not_verified",
    ),
)


@pytest.mark.parametrize("place", ["header", "code", "__type"])
@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.code)
def test_a_typed_4xx_rejects_for_good(
    ses: SesServer, refusal: Refusal, place: str
) -> None:
    act = refusing(refusal.status, refusal.code, place=place)
    message = _delivered(ses, act, "jo@example.net", A)

    assert (message.status, message.reason) == ("rejected", refusal.reason)
    assert statuses(message) == {"jo@example.net": "rejected", A: "rejected"}
    assert events_of(message) == ["message.rejected"]
    attempt = Attempt.objects.get()
    assert (attempt.result, attempt.code) == ("rejected", refusal.code)
    # no recipient is told of another
    told = f"{refusal.status} {refusal.code}: not this one, ***"
    assert attempt.detail == told
    assert ses.mails == []
    assert not Alert.objects.exists()
    assert_units_add_up(message)


def test_what_is_told_of_a_refusal_is_printable_and_names_nothing_of_the_account(
    ses: SesServer,
) -> None:
    arn = "arn:aws:ses:eu-west-1:123456789012:identity/x"
    said = json.dumps({"message": f"no\x00pe, {KEY_ID} may not use {arn} at all"})
    act = answering(403, said.encode(), x_amzn_ErrorType="AccessDeniedException")

    _delivered(ses, act)

    told = Attempt.objects.get().detail
    assert told == "403 AccessDeniedException: no?pe, *** may not use *** at all"


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.code)
def test_a_refusal_that_blames_the_domain_makes_its_check_due(
    ses: SesServer, refusal: Refusal
) -> None:
    message = queued_for("ses")
    next_week = database_now() + timedelta(days=7)
    Domain.objects.update(next_check_at=next_week)
    ses.acts.append(refusing(refusal.status, refusal.code))

    deliver(message.public_id)

    domain = Domain.objects.get()
    issues = [issue["code"] for issue in domain.issues]
    assert issues == ([refusal.issue] if refusal.issue else [])
    assert (domain.next_check_at < next_week) == (refusal.issue is not None)


# --- not now -------------------------------------------------------------------------

RETRIES = {
    "TooManyRequestsException": (429, 10, None),
    "ThrottlingException": (400, 10, None),
    "Throttling": (400, 10, None),
    "LimitExceededException": (400, 60, "provider_quota"),
    "AccountSuspendedException": (400, 60, "ses_sending_paused"),
    "SendingPausedException": (400, 60, "ses_sending_paused"),
}


@pytest.mark.parametrize("code", RETRIES)
def test_what_may_pass_waits_and_what_an_operator_can_mend_raises_an_alert(
    ses: SesServer, code: str
) -> None:
    status, seconds, alert = RETRIES[code]
    message = _delivered(ses, refusing(status, code), A)

    assert message.status == MessageStatus.QUEUED
    assert statuses(message) == {A: "queued"}
    assert events_of(message) == []
    attempt = Attempt.objects.get()
    row = OutboundState.objects.get()
    assert (attempt.result, attempt.code) == ("retry", code)
    assert row.retry_at is not None
    assert attempt.finished_at is not None
    waits = (row.retry_at - attempt.finished_at).total_seconds()
    assert seconds * 0.9 <= waits <= seconds * 1.1
    alerts = list(Alert.objects.values_list("name", "subject", "severity"))
    assert alerts == ([(alert, "ses", "page")] if alert else [])


def test_a_second_quota_error_renews_the_alert_of_the_first(ses: SesServer) -> None:
    for _ in range(2):
        ses.acts.append(refusing(400, "LimitExceededException"))
        deliver(queued_for("ses").public_id)

    alert = Alert.objects.get()
    assert alert.last_at > alert.first_at


def test_each_error_type_of_the_table_has_its_row_here() -> None:
    shown = {refusal.code for refusal in REFUSALS} | set(RETRIES)

    assert set(ERRORS) <= shown


# --- nobody knows --------------------------------------------------------------------

HTML = b"<html><body><h1>It is not you, it is us</h1></body></html>"
DOUBTS: dict[str, Act] = {
    "500 without a type": refusing(500),
    "500 with a type": refusing(500, "InternalServiceErrorException"),
    "503 without a type": refusing(503),
    "503 with a type": refusing(503, "TooManyRequestsException"),
    "503 with a page": answering(503, HTML, Content_Type="text/html"),
    "400 without a type": refusing(400),
    "400 with a page": answering(400, HTML, Content_Type="text/html"),
    "400 with another shape": answering(400, b"[]"),
    "429 without a type": refusing(429),
    "200 with a page": answering(200, HTML, Content_Type="text/html"),
    "200 with an error inside": answering(200, b'{"__type": "MessageRejected"}'),
    "200 with no id": answering(200, b"{}"),
    "200 with nothing": answering(200, b""),
    "200 with another shape": answering(200, b'{"MessageId": {"a": 1}}'),
    "200 with an id that is none": answering(200, b'{"MessageId": "a\\u0000b"}'),
    "400 with a type that is none": answering(400, b'{"code": "X\\u0000"}'),
    "400 with a number for a type": answering(400, b'{"code": 400}'),
    "200 with octets": answering(200, b"\xff\xfe"),
    "200 without end": answering(200, b'{"MessageId": "' + b"a" * 2_000_000),
    "a redirect": answering(307, b"", Location="/elsewhere"),
    "a reset before the body": reset_before_the_body,
    "a reset after the body": reset_after_the_body,
    "half an answer": half_an_answer,
}


@pytest.mark.parametrize("doubt", DOUBTS)
def test_what_no_row_calls_definite_is_uncertain_and_never_sent_again(
    ses: SesServer, doubt: str
) -> None:
    """R12: one request each, whatever comes back."""
    message = _delivered(ses, DOUBTS[doubt], A, B)

    assert (message.status, message.reason) == (MessageStatus.UNCERTAIN, LOST)
    assert statuses(message) == {A: "uncertain", B: "uncertain"}
    assert events_of(message) == ["message.uncertain"]
    attempt = Attempt.objects.get()
    assert (attempt.result, attempt.code) == ("uncertain", LOST)
    # how far it got stays on the row: a person reads it
    assert attempt.phase == "awaiting_reply"
    assert len(ses.mails) <= 1
    assert_units_add_up(message)


@pytest.mark.parametrize("act", [hang, drip], ids=["hangs", "drips"])
def test_a_peer_that_hangs_or_drips_does_not_outlive_the_deadline(
    ses: SesServer, settings: Any, act: Act
) -> None:
    """R12; the page: 30 s in all, less where a claim is shorter."""
    settings.PM_CLAIM_SECONDS = 3.75  # and the deadline three: time to ask, if slowly

    message = _delivered(ses, act, A)

    assert (message.status, message.reason) == (MessageStatus.UNCERTAIN, TIMEOUT)
    attempt = Attempt.objects.get()
    assert attempt.finished_at is not None
    took = (attempt.finished_at - attempt.claimed_at).total_seconds()
    assert 2.9 <= took <= 5
    assert len(ses.mails) == 1
