"""An SNS of the tests: signs with a key of its own, and serves its certificate.

Messages have the fields, and the signature, that AWS's developer guide describes.
"""

import base64
import itertools
import json
import socket
import ssl
import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from unittest.mock import patch

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA1, SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from tests.support.certificates import authority

REGION: Final = "eu-west-1"
HOST: Final = f"sns.{REGION}.amazonaws.com"
TOPIC: Final = f"arn:aws:sns:{REGION}:123456789012:pylota-mail"
FILE: Final = "SimpleNotificationService-0123456789abcdef.pem"
CERTIFICATE_URL: Final = f"https://{HOST}/{FILE}"
PLAIN: Final = "text/plain; charset=UTF-8"

Key = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey
Fields = dict[str, Any]


@cache
def rsa_key(bits: int = 2048, *, name: str = "sns") -> rsa.RSAPrivateKey:
    """Return a key, made once for each name."""
    return rsa.generate_private_key(public_exponent=65537, key_size=bits)


def certificate_pem(
    key: Key,
    *,
    begins: timedelta = timedelta(days=-1),
    ends: timedelta = timedelta(days=1),
) -> bytes:
    """Return a certificate of a key, good from then to then, seen from now."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "sns.amazonaws.com")])
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + begins)
        .not_valid_after(now + ends)
    )
    return builder.sign(key, SHA256()).public_bytes(Encoding.PEM)


@dataclass
class Publisher:
    """Writes messages as SNS does, and signs them."""

    key: rsa.RSAPrivateKey = field(default_factory=rsa_key)
    topic: str = TOPIC
    certificate_url: str = CERTIFICATE_URL
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def notification(self, said: Mapping[str, Any] | str, **changes: Any) -> Fields:
        """Return a signed notification of an event; changes are signed as well."""
        return self.signed(
            {
                "Type": "Notification",
                "MessageId": str(uuid.uuid4()),
                "TopicArn": self.topic,
                "Message": said if isinstance(said, str) else json.dumps(said),
                "Timestamp": stamp(datetime.now(UTC)),
                "UnsubscribeURL": f"https://{HOST}/?Action=Unsubscribe",
                **changes,
            }
        )

    def confirmation(
        self, kind: str = "SubscriptionConfirmation", **changes: Any
    ) -> Fields:
        """Return a signed question whether the endpoint wants the topic's messages."""
        token = uuid.uuid4().hex
        topic = changes.get("TopicArn", self.topic)
        query = f"Action=ConfirmSubscription&TopicArn={topic}&Token={token}"
        return self.signed(
            {
                "Type": kind,
                "MessageId": str(uuid.uuid4()),
                "Token": token,
                "TopicArn": self.topic,
                "Message": "You have chosen to subscribe to the topic.",
                "SubscribeURL": f"https://{HOST}/?{query}",
                "Timestamp": stamp(datetime.now(UTC)),
                **changes,
            }
        )

    def signed(self, fields: Fields) -> Fields:
        """Return the fields with their signature, whatever version they name."""
        found = {
            "SignatureVersion": "2",
            "SigningCertURL": self.certificate_url,
            **fields,
        }
        digest = SHA1() if found["SignatureVersion"] == "1" else SHA256()  # noqa: S303
        text = string_to_sign(found).encode()
        signature = self.key.sign(text, PKCS1v15(), digest)
        return {**found, "Signature": base64.b64encode(signature).decode()}


def string_to_sign(fields: Mapping[str, Any]) -> str:
    """Return what is signed: of the names that count, those present, sorted."""
    names = ["Message", "MessageId", "Timestamp", "TopicArn", "Type"]
    if fields["Type"] == "Notification":
        names += ["Subject"]
    else:
        names += ["SubscribeURL", "Token"]
    return "".join(
        f"{name}\n{fields[name]}\n" for name in sorted(names) if name in fields
    )


def stamp(instant: datetime) -> str:
    """Return an instant as SNS writes it."""
    return instant.strftime("%Y-%m-%dT%H:%M:%S.") + f"{instant.microsecond // 1000:03}Z"


def body_of(fields: Mapping[str, Any]) -> bytes:
    """Return a message as it is posted."""
    return json.dumps(fields, indent=2).encode()


def post(client: Any, fields: Mapping[str, Any] | bytes, **headers: str) -> Any:
    """Post a message with Django's client, as SNS does."""
    body, named = fields, headers
    if not isinstance(body, bytes):
        named = {"x-amz-sns-message-type": str(body.get("Type")), **headers}
        body = body_of(body)
    return client.post("/hooks/ses", body, content_type=PLAIN, headers=named)


# --- events of SES, in the form of its developer guide -------------------------------


def ses_event(
    kind: str,
    *,
    sender: str = "bookings@acme.example.com",
    to: Sequence[str] = ("jo@example.net",),
    message_id: str = "0102018f-0000-000000",
    subject: str = "Your booking",
    tag: str | None = None,
    rfc_message_id: str | None = None,
    **sections: Any,
) -> Fields:
    """Return an event; ``sections`` are what is its type's own."""
    now = stamp(datetime.now(UTC))
    tags = {"ses:configuration-set": ["pylota-mail"]}
    return {
        "eventType": kind,
        "mail": {
            "timestamp": now,
            "source": sender,
            "sendingAccountId": "123456789012",
            "messageId": message_id,
            "destination": list(to),
            "headersTruncated": False,
            "headers": [{"name": "Subject", "value": subject}],
            "commonHeaders": {
                "from": [f"Acme, Inc. <{sender}>"],
                "to": list(to),
                "subject": subject,
                **({"messageId": rfc_message_id} if rfc_message_id else {}),
            },
            "tags": tags | ({"pylota_message": [tag]} if tag else {}),
        },
        **sections,
    }


def delivery(*recipients: str, at: str | None = None) -> Fields:
    """Return the section of a ``Delivery``."""
    return {
        "delivery": {
            "timestamp": at or stamp(datetime.now(UTC)),
            "processingTimeMillis": 546,
            "recipients": list(recipients),
            "smtpResponse": "250 2.6.0 Message received",
            "reportingMTA": "mta.example.com",
        }
    }


def bounce(
    *recipients: str, kind: str = "Permanent", sub_type: str = "General"
) -> Fields:
    """Return the section of a ``Bounce``."""
    return {
        "bounce": {
            "bounceType": kind,
            "bounceSubType": sub_type,
            "bouncedRecipients": [
                {
                    "emailAddress": recipient,
                    "action": "failed",
                    "status": "5.1.1",
                    "diagnosticCode": "smtp; 550 5.1.1 user unknown",
                }
                for recipient in recipients
            ],
            "timestamp": stamp(datetime.now(UTC)),
            "feedbackId": "0102018f-feedback",
        }
    }


def complaint(*recipients: str) -> Fields:
    """Return the section of a ``Complaint``."""
    return {
        "complaint": {
            "complainedRecipients": [{"emailAddress": one} for one in recipients],
            "timestamp": stamp(datetime.now(UTC)),
            "feedbackId": "0102018f-complaint",
            "complaintFeedbackType": "abuse",
        }
    }


def delay(*recipients: str) -> Fields:
    """Return the section of a ``DeliveryDelay``."""
    return {
        "deliveryDelay": {
            "timestamp": stamp(datetime.now(UTC)),
            "delayType": "TransientCommunicationFailure",
            "delayedRecipients": [
                {
                    "emailAddress": recipient,
                    "status": "4.4.1",
                    "diagnosticCode": "smtp; 421 4.4.1 Unable to connect",
                }
                for recipient in recipients
            ],
        }
    }


# --- the host that serves certificates and confirms ----------------------------------


class _Call(BaseHTTPRequestHandler):
    server: "SnsHost"
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.close_connection = True
        self.server.paths.append(self.path)
        self.server.next_act()(self)

    def answer(self, status: int, body: bytes, **headers: str) -> None:
        """Write an answer."""
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


Act = Callable[[_Call], None]


def answering(status: int, body: bytes = b"", **headers: str) -> Act:
    """Answer with exactly this."""
    return lambda call: call.answer(status, body, **headers)


def drip(call: _Call) -> None:
    """Begin an answer, and go on with an octet now and then."""
    call.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n")
    while not call.server.ends.wait(0.05):
        call.wfile.write(b"-")


class SnsHost(ThreadingHTTPServer):
    """Answers over TLS in the name of SNS; counts connections, also those unspoken."""

    daemon_threads = True

    def __init__(self, pem: bytes) -> None:
        super().__init__(("127.0.0.1", 0), _Call)
        context = authority().server_context(HOST)
        self.socket = context.wrap_socket(
            self.socket, server_side=True, do_handshake_on_connect=False
        )
        self.pem = pem
        self.ends = threading.Event()
        self.forget()

    def forget(self) -> None:
        """Forget everything: a test begins."""
        self.acts: deque[Act] = deque()
        self.paths: list[str] = []
        self.connections = 0
        self.looked_up: list[str] = []

    def get_request(self) -> Any:
        """Count a connection."""
        accepted = super().get_request()
        self.connections += 1
        return accepted

    def next_act(self) -> Act:
        """Return what becomes of a request: as a rule the certificate, or ``OK``."""
        return self.acts.popleft() if self.acts else answering(200, self.pem)

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of peers that left."""

    def look_up(
        self, host: str, port: int, *, seconds: float
    ) -> Sequence[tuple[socket.AddressFamily, tuple[Any, ...]]]:
        """Resolve every name to this server, and count who asks."""
        self.looked_up.append(f"{host}:{port}")
        return [(socket.AF_INET, ("127.0.0.1", self.server_address[1]))]


@contextmanager
def sns_host(pem: bytes) -> Iterator[SnsHost]:
    """Serve in the name of every host of the network, until the block ends."""
    trusting = ssl.create_default_context(cadata=authority().pem)
    with (
        SnsHost(pem) as host,
        patch("core.network.look_up", host.look_up),
        patch("core.http_once._verified", lambda: trusting),
    ):
        thread = threading.Thread(target=host.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield host
        finally:
            host.ends.set()
            host.shutdown()
            thread.join()
