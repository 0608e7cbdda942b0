"""A Cloudflare Email Sending of the tests: real HTTP on loopback, and it can fail.

It counts what it has read, and what it took responsibility for: a send whose whole
request it read, and that it did not refuse.
"""

import json
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import parse_qs, urlsplit

from tests.support.waiting import until

FIELDS: Final = ("to", "cc", "bcc")
ACCOUNT: Final = "0123456789abcdef0123456789abcdef"
TOKEN: Final = "cf-token-open-sesame"


@dataclass(frozen=True)
class Seen:
    """One request as it came."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes = field(repr=False)

    @property
    def json(self) -> dict[str, Any]:
        """Return the body's fields."""
        found: dict[str, Any] = json.loads(self.body)
        return found

    @property
    def recipients(self) -> list[str]:
        """Return every address of the three fields, in their order."""
        return [
            person["address"] for name in FIELDS for person in self.json.get(name, [])
        ]


@dataclass(frozen=True)
class Say:
    """An answer: a status and an envelope, or any other body."""

    status: int
    body: dict[str, Any] | str

    @property
    def octets(self) -> bytes:
        """Return the body as it goes out."""
        text = self.body if isinstance(self.body, str) else json.dumps(self.body)
        return text.encode()

    @property
    def is_refusal(self) -> bool:
        """Say whether nobody gets the mail: as the status and the envelope have it."""
        envelope = self.body if isinstance(self.body, dict) else {}
        return self.status >= 400 or envelope.get("success") is False


def error(status: int, message: str, code: int | str = 10000) -> Say:
    """Return an error as the API gives it."""
    errors = [{"code": code, "message": message}]
    return Say(status, envelope(None, success=False, errors=errors))


def envelope(result: object, **changes: Any) -> dict[str, Any]:
    """Return the envelope that every answer stands in."""
    plain = {"success": True, "errors": [], "messages": [], "result": result}
    return {**plain, **changes}


def taken(recipients: list[str], message_id: object = None, **more: Any) -> Say:
    """Return a success; without an id, as older versions answer."""
    result = {"delivered": [], "permanent_bounces": [], "queued": recipients, **more}
    if message_id is not None:
        result |= {"message_id": message_id, "suppressed_recipients": []} | more
    return Say(200, envelope(result))


Step = Say | str | Callable[[Seen], Say]
"""What a request meets: an answer, or one of the faults that have a name.

``reset`` before the body is read; ``reset_after`` it, ``hang``, ``half`` an answer,
``drip`` one octet at a time.
"""


class CloudflareServer:
    """Serves until the block ends; ``sends`` are met by the steps in their order.

    When the steps are over, a send is taken, unless it names somebody in
    ``suppressed`` (address to reason): then it is refused as a whole. Look-ups are
    answered from there too, or meet ``lookup``.
    """

    def __init__(self, *steps: Step, suppressed: dict[str, str] | None = None) -> None:
        self.steps = list(steps)
        self.suppressed = suppressed or {}
        self.lookup: Step | None = None
        self.scope: object = "account"
        self.before: Callable[[Seen], None] = lambda seen: None
        self.requests: list[Seen] = []
        self.copies: Counter[str] = Counter()
        self.connections = 0
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._threads: list[threading.Thread] = []

    @property
    def base(self) -> str:
        """Return the API's URL."""
        return f"http://127.0.0.1:{self.port}/client/v4"

    @property
    def sends(self) -> list[Seen]:
        """Return the sends that were read whole."""
        return [seen for seen in self.requests if seen.method == "POST"]

    @property
    def lookups(self) -> list[str]:
        """Return the addresses that were asked about."""
        asked = [seen for seen in self.requests if seen.method == "GET"]
        return [seen.query["email"] for seen in asked if "email" in seen.query]

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closing.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)
        self._listener.close()

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait until something is so; fail after a while."""
        until(condition)

    def _start(self, target: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._closing.is_set():
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self._start(self._serve, sock)

    def _serve(self, sock: socket.socket) -> None:
        with sock, suppress(OSError):
            with self._lock:
                self.connections += 1
            sock.settimeout(10)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            head, _, rest = _read_head(sock).partition(b"\r\n\r\n")
            if not head:
                return
            method, target, headers = _parsed(head)
            with self._lock:
                step = self._step(method, target)
            if step == "reset":
                _reset(sock)
                return
            length = int(headers.get("content-length", "0"))
            while len(rest) < length:
                rest += sock.recv(65536)
            parts = urlsplit(target)
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            seen = Seen(method, parts.path, query, headers, rest)
            with self._lock:
                self.requests.append(seen)
            self.before(seen)
            self._meet(sock, seen, step)

    def _step(self, method: str, target: str) -> Step:
        if method == "GET":
            return self.lookup or self._list
        return self.steps.pop(0) if self.steps else self._take

    def _meet(self, sock: socket.socket, seen: Seen, step: Step) -> None:
        plain = self._list if seen.method == "GET" else self._take
        answer = plain if isinstance(step, str) else step
        if callable(answer):
            answer = answer(seen)
        if seen.method == "POST" and not answer.is_refusal:
            with self._lock:
                self.copies.update(seen.recipients)
        wire = _wire(answer)
        match step:
            case "reset_after":
                _reset(sock)
            case "hang":
                self._closing.wait(20)
            case "half":
                sock.sendall(wire[: -len(answer.octets) // 2])
            case "drip":
                for octet in wire:
                    sock.sendall(bytes([octet]))
                    if self._closing.wait(0.05):
                        return
            case _:
                sock.sendall(wire)

    def _take(self, seen: Seen) -> Say:
        if self.suppressed.keys() & set(seen.recipients):
            return error(400, "email.sending.error.recipient_suppressed", 10204)
        return taken(seen.recipients, f"cf-{len(self.sends)}")

    def _list(self, seen: Seen) -> Say:
        address = seen.query.get("email", "")
        entry = {"id": "1", "email": address, "read_only": False, "expires_at": None}
        entry |= {"reason": self.suppressed.get(address), "scope": self.scope}
        listed = [entry] if address in self.suppressed else []
        return Say(200, envelope(listed, result_info={"next_cursor": None}))


def _read_head(sock: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        if not (octets := sock.recv(65536)):
            return b""
        data += octets
    return data


def _parsed(head: bytes) -> tuple[str, str, dict[str, str]]:
    first, *lines = head.decode("ascii").split("\r\n")
    method, target, _ = first.split(" ")
    headers = dict(line.split(": ", 1) for line in lines)
    return method, target, {name.lower(): value for name, value in headers.items()}


def _wire(answer: Say) -> bytes:
    kind = "text/html" if isinstance(answer.body, str) else "application/json"
    # whoever follows comes once more, and is counted
    moved = "Location: /elsewhere\r\n" if answer.status in range(300, 400) else ""
    head = (
        f"HTTP/1.1 {answer.status} X\r\nContent-Type: {kind}\r\n{moved}"
        f"Content-Length: {len(answer.octets)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + answer.octets


def _reset(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()
