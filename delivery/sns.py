"""Whether a message is one that SNS signed for our topic: pure.

In the order of cost: its form, its version, its topic, the URLs that it names and its
age are judged first, so that nothing forged makes this process open a connection. Only
then is the certificate asked for, and the signature verified (the page, "Amazon SES";
SNS developer guide, "Verifying the signatures of Amazon SNS messages").
"""

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA256

from core.bodies import parse_json_object
from core.errors import InvalidRequest

VERSION: Final = "2"
"""RSA with SHA-256; version 1 is SHA-1."""
OLDEST: Final = timedelta(hours=1)
SMALLEST_KEY: Final = 2048

_MESSAGE_ID: Final = re.compile(r"[0-9A-Za-z-]{1,100}")
_INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z", re.ASCII)
_PART: Final = r"/[0-9A-Za-z_-][0-9A-Za-z._-]{0,199}"
_CERTIFICATE_PATH: Final = rf"(?:{_PART})*{_PART}\.pem"
_CONFIRMATION_PATH: Final = r"/(?:[!-~](?<![#\\]))*"


class Reason(StrEnum):
    """Why a message is refused."""

    MALFORMED = "malformed"
    TYPE = "type"
    VERSION = "version"
    TOPIC = "topic"
    CERTIFICATE_URL = "certificate_url"
    SUBSCRIBE_URL = "subscribe_url"
    TIMESTAMP = "timestamp"
    CERTIFICATE = "certificate"
    SIGNATURE = "signature"


class Refused(Exception):
    """The message is not one that SNS signed for our topic."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(str(reason))
        self.reason = reason


class MessageType(StrEnum):
    """What SNS posts."""

    NOTIFICATION = "Notification"
    SUBSCRIBED = "SubscriptionConfirmation"
    UNSUBSCRIBED = "UnsubscribeConfirmation"


_ENDS: Final = ("Timestamp", "TopicArn", "Type")
_ASKED: Final = ("Message", "MessageId", "SubscribeURL", "Timestamp", "Token")
SIGNED: Final[Mapping[MessageType, tuple[str, ...]]] = {
    MessageType.NOTIFICATION: ("Message", "MessageId", "Subject", *_ENDS),
    MessageType.SUBSCRIBED: (*_ASKED, "TopicArn", "Type"),
    MessageType.UNSUBSCRIBED: (*_ASKED, "TopicArn", "Type"),
}
"""The fields that are signed, in their order; ``Subject`` may be missing."""


@dataclass(frozen=True, slots=True)
class SnsMessage:
    """A message as it came: nothing of it is proved before ``check_signature``."""

    type: MessageType
    message_id: str
    topic_arn: str
    published_at: datetime
    signature: bytes
    certificate_url: str
    signed: Mapping[str, str] = field(repr=False)

    @property
    def text(self) -> str:
        """Return what the publisher said; of a notification, SES's event."""
        return self.signed["Message"]

    @property
    def subscribe_url(self) -> str:
        """Return where a subscription is confirmed; empty for a notification."""
        return self.signed.get("SubscribeURL", "")

    def string_to_sign(self) -> bytes:
        """Return each signed name and its value, a line each."""
        lines = (f"{name}\n{value}\n" for name, value in self.signed.items())
        return "".join(lines).encode()


def read(body: bytes, *, announced_type: str | None = None) -> SnsMessage:
    """Return the message that a body holds; raises Refused.

    ``announced_type`` is the header's word, which must be the message's own.
    """
    try:
        said = parse_json_object(body)
    except InvalidRequest:
        raise Refused(Reason.MALFORMED) from None
    kind = _type_of(said)
    if announced_type not in (None, kind.value):
        raise Refused(Reason.TYPE)
    if _text(said, "SignatureVersion") != VERSION:
        raise Refused(Reason.VERSION)
    message_id = _text(said, "MessageId")
    if _MESSAGE_ID.fullmatch(message_id) is None:
        raise Refused(Reason.MALFORMED)
    return SnsMessage(
        type=kind,
        message_id=message_id,
        topic_arn=_text(said, "TopicArn"),
        published_at=_instant(_text(said, "Timestamp")),
        signature=_decoded(_text(said, "Signature")),
        certificate_url=_text(said, "SigningCertURL"),
        signed={
            name: _text(said, name)
            for name in SIGNED[kind]
            if name != "Subject" or said.get(name) is not None
        },
    )


def check_origin(message: SnsMessage, *, topic_arn: str) -> None:
    """Raise Refused unless topic and URLs are those of the configured topic.

    ``topic_arn`` empty: none is configured, and every message is refused.
    """
    if not topic_arn or message.topic_arn != topic_arn:
        raise Refused(Reason.TOPIC)
    host = host_of(topic_arn)
    if not _is_on(host, message.certificate_url, path=_CERTIFICATE_PATH):
        raise Refused(Reason.CERTIFICATE_URL)
    if message.type != MessageType.NOTIFICATION and not _is_on(
        host, message.subscribe_url, path=_CONFIRMATION_PATH
    ):
        raise Refused(Reason.SUBSCRIBE_URL)


def check_age(message: SnsMessage, *, now: datetime) -> None:
    """Raise Refused unless the message was published within an hour of now."""
    if abs(now - message.published_at) > OLDEST:
        raise Refused(Reason.TIMESTAMP)


def check_signature(
    message: SnsMessage, certificate: x509.Certificate, *, now: datetime
) -> None:
    """Raise Refused unless the certificate is good now and its key signed this."""
    key = _key_of(certificate, now=now)
    try:
        key.verify(message.signature, message.string_to_sign(), PKCS1v15(), SHA256())
    except InvalidSignature:
        raise Refused(Reason.SIGNATURE) from None


def host_of(topic_arn: str) -> str:
    """Return the one host that speaks for a topic: SNS in the topic's region."""
    region = topic_arn.split(":")[3]
    return f"sns.{region}.amazonaws.com"


def certificate_in(pem: bytes) -> x509.Certificate:
    """Return the certificate that a file holds; raises Refused."""
    try:
        return x509.load_pem_x509_certificate(pem)
    except ValueError:
        raise Refused(Reason.CERTIFICATE) from None


def _key_of(certificate: x509.Certificate, *, now: datetime) -> RSAPublicKey:
    begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    try:
        key = certificate.public_key()
    except (ValueError, UnsupportedAlgorithm):
        raise Refused(Reason.CERTIFICATE) from None
    if not isinstance(key, RSAPublicKey) or key.key_size < SMALLEST_KEY:
        raise Refused(Reason.CERTIFICATE)
    if not begins <= now <= ends:
        raise Refused(Reason.CERTIFICATE)
    return key


def _is_on(host: str, url: str, *, path: str) -> bool:
    """Tell whether a URL is literally one of the host's: no port, no user, no trick."""
    return re.fullmatch(rf"https://{re.escape(host)}{path}", url, re.ASCII) is not None


def _type_of(said: Mapping[str, Any]) -> MessageType:
    try:
        return MessageType(_text(said, "Type"))
    except ValueError:
        raise Refused(Reason.TYPE) from None


def _text(said: Mapping[str, Any], name: str) -> str:
    value = said.get(name)
    if not isinstance(value, str):
        raise Refused(Reason.MALFORMED)
    return value


def _instant(text: str) -> datetime:
    if _INSTANT.fullmatch(text) is None:
        raise Refused(Reason.TIMESTAMP)
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except ValueError:
        raise Refused(Reason.TIMESTAMP) from None


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise Refused(Reason.SIGNATURE) from None
