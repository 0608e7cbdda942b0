"""An SES that speaks version 2's wire format, stores, counts, and fails on demand."""

import hashlib
import hmac
import json
import socket
import ssl
import struct
import threading
from base64 import b64decode
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

REGION: Final = "eu-west-1"
KEY_ID: Final = "AKIAPYLOTATEST"
SECRET: Final = "a secret of the tests".replace(" ", "/")
PATH: Final = "/v2/email/outbound-emails"
DRIP_SECONDS: Final = 0.05


@dataclass(frozen=True, slots=True)
class SesMail:
    """What SES took responsibility for."""

    id: str
    sender: str
    destination: Mapping[str, list[str]]
    content: bytes
    tags: Mapping[str, str]
    configuration_set: str | None


class SesCall(BaseHTTPRequestHandler):
    """One request; an act decides what becomes of it."""

    server: "SesServer"
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.server.note(self.path, self.headers.get("Authorization", ""))
        self.close_connection = True
        act = self.server.next_act()
        act(self)

    def do_GET(self) -> None:
        """Answer a question about the account, as it is planned."""
        self.close_connection = True
        self.server.questions.append(self.path)
        status, body = self.server.account
        self.answer(status, body)

    def read(self) -> bytes:
        """Read the whole body."""
        return self.rfile.read(int(self.headers["Content-Length"]))

    def store(self) -> str | None:
        """Take the mail; None when the request is not signed by the known key."""
        body = self.read()
        if not is_signed(self.command, self.path, self.headers, body):
            return None
        return self.server.store(json.loads(body))

    def answer(
        self,
        status: int,
        body: bytes,
        *,
        headers: Mapping[str, str] | None = None,
        length: int | None = None,
    ) -> None:
        """Write an answer; ``length`` is what it claims to hold."""
        self.wfile.write(answer_bytes(status, body, headers=headers, length=length))

    def reset(self) -> None:
        """Drop the connection with a reset."""
        linger = struct.pack("ii", 1, 0)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.rfile.close()
        self.connection.close()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


Act = Callable[[SesCall], None]


def answer_bytes(
    status: int,
    body: bytes,
    *,
    headers: Mapping[str, str] | None = None,
    length: int | None = None,
) -> bytes:
    """Return an answer as it goes over the wire."""
    given = {
        "Content-Type": "application/json",
        "Content-Length": str(len(body) if length is None else length),
        "x-amzn-RequestId": "6f0d3f0e-0000-4000-8000-000000000000",
        **(headers or {}),
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in given.items())
    return f"HTTP/1.1 {status} X\r\n{head}\r\n".encode() + body


# --- what may become of a request ----------------------------------------------------


def accept(call: SesCall) -> None:
    """Store the mail and answer with its id."""
    if (message_id := call.store()) is None:
        refusing(403, "SignatureDoesNotMatch")(call, is_read=True)
        return
    call.answer(200, json.dumps({"MessageId": message_id}).encode())


class refusing:  # noqa: N801  reads as a verb where it is used
    """Refuse without storing; the type stands in the header, the body, or nowhere."""

    def __init__(
        self, status: int, code: str | None = None, *, place: str = "header"
    ) -> None:
        self.status, self.code, self.place = status, code, place

    def __call__(self, call: SesCall, *, is_read: bool = False) -> None:
        if not is_read:
            call.read()
        said: dict[str, str] = {"message": "not this one, jo@example.net"}
        headers = {}
        if self.code is not None and self.place == "header":
            headers["x-amzn-ErrorType"] = f"{self.code}:http://internal.amazon.com/ses/"
        elif self.code is not None:
            said[self.place] = self.code
        call.answer(self.status, json.dumps(said).encode(), headers=headers)


def answering(status: int, body: bytes, **headers: str) -> Act:
    """Store the mail, and answer with exactly this."""

    def act(call: SesCall) -> None:
        call.store()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        call.answer(status, body, headers=named)

    return act


def reset_before_the_body(call: SesCall) -> None:
    """Leave without having read the mail."""
    call.reset()


def reset_after_the_body(call: SesCall) -> None:
    """Store the mail and leave."""
    call.store()
    call.reset()


def hang(call: SesCall) -> None:
    """Store the mail and say nothing, until the server ends."""
    call.store()
    call.server.ends.wait(30)


def half_an_answer(call: SesCall) -> None:
    """Store the mail, begin to answer, and leave."""
    body = json.dumps({"MessageId": call.store()}).encode()
    call.answer(200, body[:12], length=len(body))


def drip(call: SesCall) -> None:
    """Store the mail and answer, an octet now and then."""
    body = json.dumps({"MessageId": call.store()}).encode()
    for octet in answer_bytes(200, body + b" " * 10_000):
        call.wfile.write(bytes([octet]))
        if call.server.ends.wait(DRIP_SECONDS):
            return


# --- the server ----------------------------------------------------------------------


class SesServer(ThreadingHTTPServer):
    """Takes each request as its next act says; as a rule it accepts."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", 0), SesCall)
        self.scheme = "http" if context is None else "https"
        if context is not None:
            self.socket = context.wrap_socket(self.socket, server_side=True)
        self._lock = threading.Lock()
        self.ends = threading.Event()
        self.reset()

    def reset(self) -> None:
        """Forget everything: a test begins."""
        self.acts: deque[Act] = deque()
        self.account: tuple[int, bytes] = (200, b'{"SendingEnabled": true}')
        self.questions: list[str] = []
        self.paths: list[str] = []
        self.authorizations: list[str] = []
        self.mails: list[SesMail] = []

    @property
    def url(self) -> str:
        """Return the endpoint that a client is given."""
        return f"{self.scheme}://127.0.0.1:{self.server_address[1]}"

    @property
    def requests(self) -> int:
        """Return how many requests have begun."""
        return len(self.paths)

    def note(self, path: str, authorization: str) -> None:
        """Count a request."""
        with self._lock:
            self.paths.append(path)
            self.authorizations.append(authorization)

    def next_act(self) -> Act:
        """Return what becomes of the next request."""
        with self._lock:
            return self.acts.popleft() if self.acts else accept

    def store(self, asked: dict[str, Any]) -> str:
        """Take responsibility for a mail; return its id."""
        with self._lock:
            message_id = f"0102018f-{len(self.mails):04}-000000"
            tags = {tag["Name"]: tag["Value"] for tag in asked.get("EmailTags", [])}
            self.mails.append(
                SesMail(
                    id=message_id,
                    sender=asked["FromEmailAddress"],
                    destination=asked["Destination"],
                    content=b64decode(asked["Content"]["Raw"]["Data"], validate=True),
                    tags=tags,
                    configuration_set=asked.get("ConfigurationSetName"),
                )
            )
        return message_id

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of peers that left."""


@contextmanager
def ses_server(context: ssl.SSLContext | None = None) -> Iterator[SesServer]:
    """Serve on a free loopback port until the block ends; over TLS with a context."""
    with SesServer(context) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield server
        finally:
            server.ends.set()
            server.shutdown()
            thread.join()


# --- the signature, from AWS's description of it -------------------------------------


def is_signed(
    method: str, path: str, headers: "Message[str, str]", body: bytes
) -> bool:
    """Tell whether the known key has signed this request (Signature Version 4)."""
    named, signed, signature = (
        part.partition("=")[2]
        for part in headers.get("Authorization", "= = =").split(" ", 1)[1].split(", ")
    )
    date, stamp = headers["X-Amz-Date"][:8], headers["X-Amz-Date"]
    scope = f"{date}/{REGION}/ses/aws4_request"
    canonical = "\n".join(
        [
            method,
            path,
            "",
            *(f"{name}:{headers[name].strip()}" for name in signed.split(";")),
            "",
            signed,
            hashlib.sha256(body).hexdigest(),
        ]
    )
    to_sign = "\n".join(
        [
            "AWS4-HMAC-SHA256",
            stamp,
            scope,
            hashlib.sha256(canonical.encode()).hexdigest(),
        ]
    )
    key = f"AWS4{SECRET}".encode()
    for part in (date, REGION, "ses", "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    wanted = hmac.digest(key, to_sign.encode(), "sha256").hex()
    return named == f"{KEY_ID}/{scope}" and hmac.compare_digest(signature, wanted)
