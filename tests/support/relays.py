"""A transport and messages for the faulty server, with short times."""

from typing import Any

from outbound.transports.base import OutgoingMessage, Relay
from outbound.transports.smtp import SmtpTransport
from tests.support.smtp_server import SmtpServer

MESSAGE_ID = "01k@x.test"
CONTENT = (
    f"Message-ID: <{MESSAGE_ID}>\r\nSubject: Your booking\r\n\r\nHello.\r\n".encode()
)
SECONDS = 30.0
"""Each step's time, when a test does not wait for its end."""


def transport(seconds: float = SECONDS, **changes: Any) -> SmtpTransport:
    """Return a transport whose every step may take so long."""
    given: dict[str, Any] = {
        "ehlo_name": "127.0.0.1",
        "connect_seconds": seconds,
        "command_seconds": seconds,
        "final_seconds": seconds,
        "allow_private": True,
    }
    return SmtpTransport(**{**given, **changes})


def relay(server: SmtpServer, **changes: Any) -> Relay:
    """Return the server as a relay that this test run's authority vouches for."""
    given: dict[str, Any] = {
        "host": "127.0.0.1",
        "port": server.port,
        "username": "user",
        "password": "open sesame",
        "implicit_tls": server.script.tls == "implicit",
        "ca": server.ca,
    }
    return Relay(**{**given, **changes})


def outgoing(server: SmtpServer, *recipients: str, **changes: Any) -> OutgoingMessage:
    """Return a message for this server, to one recipient unless told otherwise."""
    given: dict[str, Any] = {
        "message_id": "msg_01k",
        "rfc_message_id": MESSAGE_ID,
        "domain": "x.test",
        "from_address": "from@x.test",
        "recipients": recipients or ("a@y.test",),
        "mime": CONTENT,
        "relay": changes.pop("relay", None) or relay(server),
    }
    return OutgoingMessage(**{**given, **changes})


def copies(server: SmtpServer, recipient: str = "a@y.test") -> int:
    """Return how many copies of the test's message the server took for a recipient."""
    return server.copies[(f"<{MESSAGE_ID}>", recipient)]
