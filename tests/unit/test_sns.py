"""What SNS signed for our topic is told from everything else, without any call."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from delivery import sns
from delivery.sns import Reason, Refused, SnsMessage
from tests.support.sns import (
    CERTIFICATE_URL,
    FILE,
    HOST,
    REGION,
    TOPIC,
    Fields,
    Publisher,
    body_of,
    certificate_pem,
    rsa_key,
    stamp,
)

GOOD = certificate_pem(rsa_key())


def judge(
    fields: Fields | bytes, *, pem: bytes = GOOD, topic_arn: str = TOPIC
) -> SnsMessage:
    """Do all that is done before a message counts; return it."""
    now = datetime.now(UTC)
    body = fields if isinstance(fields, bytes) else body_of(fields)
    message = sns.read(body)
    sns.check_origin(message, topic_arn=topic_arn)
    sns.check_age(message, now=now)
    sns.check_signature(message, sns.certificate_in(pem), now=now)
    return message


def reason_of(fields: Fields | bytes, **judged: Any) -> Reason:
    """Return why a message is refused."""
    with pytest.raises(Refused) as refused:
        judge(fields, **judged)
    return refused.value.reason


@pytest.fixture(scope="module")
def publisher() -> Publisher:
    return Publisher()


# --- what is let in ------------------------------------------------------------------


def test_a_notification_is_read_with_what_it_says(publisher: Publisher) -> None:
    message = judge(publisher.notification("Zoë says\n“hello”"))

    assert message.text == "Zoë says\n“hello”"
    assert message.subscribe_url == ""


@pytest.mark.parametrize("subject", ["Amazon SES", "", None])
def test_a_subject_is_signed_where_there_is_one(
    publisher: Publisher, subject: str | None
) -> None:
    told = publisher.notification(
        "x", **({} if subject is None else {"Subject": subject})
    )
    if subject is None:
        told["Subject"] = None  # as absent: nothing was signed

    assert judge(told).text == "x"


@pytest.mark.parametrize(
    "kind", ["SubscriptionConfirmation", "UnsubscribeConfirmation"]
)
def test_a_confirmation_is_read_with_its_url(publisher: Publisher, kind: str) -> None:
    message = judge(publisher.confirmation(kind))

    assert message.type == kind
    assert message.subscribe_url.startswith(f"https://{HOST}/?Action=")


def test_a_message_is_good_for_an_hour_either_way(publisher: Publisher) -> None:
    for offset in (-3590, 3590):
        at = datetime.now(UTC) + timedelta(seconds=offset)
        assert judge(publisher.notification("x", Timestamp=stamp(at))).text == "x"


def test_the_string_to_sign_is_each_name_and_value_in_their_order() -> None:
    """The order stands here, not taken from the code that is tested."""
    fields = {
        "Type": "Notification",
        "MessageId": "id-1",
        "TopicArn": TOPIC,
        "Subject": "s",
        "Message": "m",
        "Timestamp": "2026-10-09T08:30:00.000Z",
        "SignatureVersion": "2",
        "Signature": "",
        "SigningCertURL": CERTIFICATE_URL,
        "Token": "not signed here",
    }
    begin = "Message\nm\nMessageId\nid-1\n"
    end = (
        f"Timestamp\n2026-10-09T08:30:00.000Z\nTopicArn\n{TOPIC}\nType\nNotification\n"
    )

    told = sns.read(body_of(fields)).string_to_sign().decode()
    assert told == f"{begin}Subject\ns\n{end}"
    del fields["Subject"]
    assert sns.read(body_of(fields)).string_to_sign().decode() == begin + end

    asked = {**fields, "Type": "SubscriptionConfirmation", "SubscribeURL": "u"}
    assert sns.read(body_of(asked)).string_to_sign().decode() == (
        f"{begin}SubscribeURL\nu\nTimestamp\n2026-10-09T08:30:00.000Z\n"
        f"Token\nnot signed here\nTopicArn\n{TOPIC}\nType\nSubscriptionConfirmation\n"
    )


# --- what was changed on its way -----------------------------------------------------

CHANGED: dict[str, Callable[[str], str]] = {
    "Message": lambda value: value + " ",
    "MessageId": lambda value: value[:-1] + ("0" if value[-1] != "0" else "1"),
    "Subject": lambda value: value + "!",
    "Token": lambda value: value[::-1] + "0",
    "SubscribeURL": lambda value: value + "0",
    "Signature": lambda value: ("A" if value[0] != "A" else "B") + value[1:],
}


@pytest.mark.parametrize("name", ["Message", "MessageId", "Subject", "Signature"])
def test_a_changed_notification_is_refused(publisher: Publisher, name: str) -> None:
    told = publisher.notification("x", Subject="s")

    assert reason_of({**told, name: CHANGED[name](told[name])}) == Reason.SIGNATURE


@pytest.mark.parametrize(
    "name", ["Message", "MessageId", "Token", "SubscribeURL", "Signature"]
)
def test_a_changed_confirmation_is_refused(publisher: Publisher, name: str) -> None:
    told = publisher.confirmation()

    assert reason_of({**told, name: CHANGED[name](told[name])}) == Reason.SIGNATURE


def test_an_instant_or_type_of_its_own_is_refused(publisher: Publisher) -> None:
    told = publisher.notification("x")
    later = stamp(datetime.now(UTC) - timedelta(minutes=5))

    assert reason_of({**told, "Timestamp": later}) == Reason.SIGNATURE
    asked = publisher.confirmation()
    unasked = {**asked, "Type": "UnsubscribeConfirmation"}
    assert reason_of(unasked) == Reason.SIGNATURE


def test_a_subject_added_or_taken_away_is_refused(publisher: Publisher) -> None:
    with_one = publisher.notification("x", Subject="s")
    without = publisher.notification("x")

    assert reason_of({**with_one, "Subject": None}) == Reason.SIGNATURE
    assert reason_of({**without, "Subject": "s"}) == Reason.SIGNATURE


def test_words_cannot_move_from_one_field_to_the_next(publisher: Publisher) -> None:
    told = publisher.notification("first\nMessageId\nsecond")
    moved = {**told, "Message": "first", "MessageId": f"second\nMessageId\n{told}"}

    assert reason_of(moved) == Reason.MALFORMED


@pytest.mark.parametrize("signature", ["", "***", "c2hvcnQ=", "c2hvcnQ", "é"])
def test_what_is_no_signature_is_refused(publisher: Publisher, signature: str) -> None:
    told = {**publisher.notification("x"), "Signature": signature}

    assert reason_of(told) == Reason.SIGNATURE


# --- what somebody else signed, or not for us ----------------------------------------


def test_another_topic_or_none_at_all_is_refused(publisher: Publisher) -> None:
    other = f"arn:aws:sns:{REGION}:123456789012:other"
    for kind in (publisher.notification("x"), publisher.confirmation()):
        signed = publisher.signed({**kind, "TopicArn": other})
        assert reason_of(signed) == Reason.TOPIC
        assert reason_of(kind, topic_arn="") == Reason.TOPIC
    empty = publisher.notification("x", TopicArn="")
    assert reason_of(empty, topic_arn="") == Reason.TOPIC


@pytest.mark.parametrize("version", ["1", "3", "", "02"])
def test_no_version_but_2_is_let_in(publisher: Publisher, version: str) -> None:
    told = publisher.notification("x", SignatureVersion=version)

    assert reason_of(told) == Reason.VERSION


@pytest.mark.parametrize("seconds", [-3700, 3700, -(10**8), 10**8])
def test_a_message_of_another_hour_is_refused(
    publisher: Publisher, seconds: int
) -> None:
    at = stamp(datetime.now(UTC) + timedelta(seconds=seconds))

    assert reason_of(publisher.notification("x", Timestamp=at)) == Reason.TIMESTAMP


@pytest.mark.parametrize(
    "text",
    ["", "now", "2026-10-09", "2026-13-09T08:30:00.000Z", "2026-10-09T08:30:00+02:00"],
)
def test_what_is_no_instant_is_refused(publisher: Publisher, text: str) -> None:
    assert reason_of(publisher.notification("x", Timestamp=text)) == Reason.TIMESTAMP


ELSEWHERE = [
    "",
    FILE,
    f"http://{HOST}/{FILE}",
    f"ftp://{HOST}/{FILE}",
    f"HTTPS://{HOST}/{FILE}",
    f"//{HOST}/{FILE}",
    f"https:/{HOST}/{FILE}",
    f"https://{HOST}:443/{FILE}",
    f"https://{HOST}:8443/{FILE}",
    f"https://{HOST}:/{FILE}",
    f"https://user@{HOST}/{FILE}",
    f"https://user:hush@{HOST}/{FILE}",
    f"https://@{HOST}/{FILE}",
    f"https://{HOST}@evil.example/{FILE}",
    f"https://{HOST}\\@evil.example/{FILE}",
    f"https://{HOST}.evil.example/{FILE}",
    f"https://{HOST}./{FILE}",
    f"https://{HOST.upper()}/{FILE}",
    f"https://evil-{HOST}/{FILE}",
    f"https://evil.{HOST}/{FILE}",
    f"https://evil.example/{HOST}/{FILE}",
    f"https://evil.example/?https://{HOST}/{FILE}",
    f"https://evil.example#{HOST}/{FILE}",
    f"https://sns.us-east-1.amazonaws.com/{FILE}",
    f"https://sns.{REGION}.amazonaws.com.cn/{FILE}",
    f"https://sns.{REGION}.amazonaws.org/{FILE}",
    f"https://snsx{REGION}.amazonaws.com/{FILE}",
    f"https://sns-{REGION}.s3.amazonaws.com/{FILE}",
    f"https://s3.{REGION}.amazonaws.com/bucket/{FILE}",
    f"https://sns.{REGION}xamazonaws.com/{FILE}",
    f"https://sns.{REGION}.amаzonaws.com/{FILE}",  # noqa: RUF001  a Cyrillic letter
    "https://127.0.0.1/x.pem",
    "https://169.254.169.254/x.pem",
    "https://[::1]/x.pem",
    f"https://{HOST}\n/{FILE}",
    f"https://{HOST}/{FILE}\n",
    f" https://{HOST}/{FILE}",
    f"https://{HOST}/\r\nHost: evil.example\r\n/{FILE}",
]
NO_CERTIFICATE = [
    f"https://{HOST}",
    f"https://{HOST}/",
    f"https://{HOST}/.pem",
    f"https://{HOST}/x.pem.txt",
    f"https://{HOST}/x.PEM",
    f"https://{HOST}/x.pem?y",
    f"https://{HOST}/?x.pem",
    f"https://{HOST}/x.pem#y",
    f"https://{HOST}/#x.pem",
    f"https://{HOST}/../x.pem",
    f"https://{HOST}/a/../../x.pem",
    f"https://{HOST}//evil.example/x.pem",
    f"https://{HOST}/..%2f..%2fx.pem",
    f"https://{HOST}/a\\x.pem",
    f"https://{HOST}/{'a' * 300}.pem",
]


@pytest.mark.parametrize("url", [*ELSEWHERE, *NO_CERTIFICATE])
def test_a_certificate_from_elsewhere_is_refused(
    publisher: Publisher, url: str
) -> None:
    told = publisher.notification("x", SigningCertURL=url)

    assert reason_of(told) == Reason.CERTIFICATE_URL


@pytest.mark.parametrize(
    "url",
    [*ELSEWHERE, f"https://{HOST}", f"https://{HOST}/a\\b", f"https://{HOST}/#a b"],
)
@pytest.mark.parametrize(
    "kind", ["SubscriptionConfirmation", "UnsubscribeConfirmation"]
)
def test_a_confirmation_elsewhere_is_refused(
    publisher: Publisher, kind: str, url: str
) -> None:
    told = publisher.confirmation(kind, SubscribeURL=url)

    assert reason_of(told) == Reason.SUBSCRIBE_URL


# --- what has not the form -----------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"Notification"',
        b"\xff\xfe",
        b'{"Type": "Notification", "Type": "Notification"}',
        b'{"Type": "Notification", "MessageId": "\\u0000"}',
        b'{"Type": "Notification", "MessageId": "\\ud800"}',
        b'{"Type": NaN}',
        b"[" * 100_000,
        b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
    ],
)
def test_what_is_no_strict_json_is_refused(body: bytes) -> None:
    assert reason_of(body) == Reason.MALFORMED


@pytest.mark.parametrize("value", [None, 1, True, ["x"], {"a": "b"}])
@pytest.mark.parametrize(
    "name",
    [
        *("MessageId", "TopicArn", "Message", "Timestamp", "Signature"),
        *("SignatureVersion", "SigningCertURL", "Type"),
    ],
)
def test_a_field_that_is_no_text_is_refused(
    publisher: Publisher, name: str, value: object
) -> None:
    told = publisher.notification("x")

    assert reason_of({**told, name: value}) == Reason.MALFORMED


@pytest.mark.parametrize("name", ["SubscribeURL", "Token"])
def test_a_confirmation_without_its_fields_is_refused(
    publisher: Publisher, name: str
) -> None:
    told = publisher.confirmation()
    del told[name]

    assert reason_of(told) == Reason.MALFORMED


@pytest.mark.parametrize("kind", ["", "notification", "Bounce", "Notification "])
def test_an_unknown_type_is_refused(publisher: Publisher, kind: str) -> None:
    assert reason_of({**publisher.notification("x"), "Type": kind}) == Reason.TYPE


def test_the_header_and_the_message_name_one_type(publisher: Publisher) -> None:
    body = json.dumps(publisher.notification("x")).encode()

    assert sns.read(body, announced_type="Notification").message_id
    with pytest.raises(Refused) as refused:
        sns.read(body, announced_type="SubscriptionConfirmation")
    assert refused.value.reason == Reason.TYPE


# --- the certificate -----------------------------------------------------------------

BAD: dict[str, Callable[[], bytes]] = {
    "elliptic": lambda: certificate_pem(ec.generate_private_key(ec.SECP256R1())),
    "short": lambda: certificate_pem(rsa_key(1024)),
    "over": lambda: certificate_pem(rsa_key(), ends=timedelta(seconds=-5)),
    "not begun": lambda: certificate_pem(rsa_key(), begins=timedelta(seconds=60)),
    "empty": lambda: b"",
    "a page": lambda: b"<html>Access denied</html>",
    "cut short": lambda: GOOD[:200],
    "broken": lambda: GOOD.replace(b"M", b"N"),
}


@pytest.mark.parametrize("kind", sorted(BAD))
def test_a_certificate_that_is_not_good_now_is_refused(
    publisher: Publisher, kind: str
) -> None:
    assert reason_of(publisher.notification("x"), pem=BAD[kind]()) == Reason.CERTIFICATE


def test_the_key_of_another_certificate_signs_nothing() -> None:
    forger = Publisher(rsa_key(name="forger"))

    assert reason_of(forger.notification("x")) == Reason.SIGNATURE


def test_a_chain_counts_by_its_first_certificate(publisher: Publisher) -> None:
    chain = GOOD + certificate_pem(rsa_key(name="forger"))

    assert judge(publisher.notification("x"), pem=chain).text == "x"
    assert isinstance(sns.certificate_in(chain), x509.Certificate)
