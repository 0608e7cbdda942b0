"""A receiver of webhooks: real HTTPS on loopback, and its path says how it fails.

``/ok`` 204, ``/status/500`` that status, ``/redirect`` 302 to a private address,
``/nonsense`` 302 to what is no URL,
``/cut`` closes in the middle of its answer, ``/hang`` reads and never answers,
``/slow`` answers after a second, ``/drip`` an octet of the head now and then,
``/endless`` a body without an end. ``/dead`` hangs until ``revived`` is set, and
``/flaky`` fails the first time an event comes, in the way that follows. What follows
in the path tells receivers apart.
"""

import select
import ssl
import threading
import time
from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from tests.support.certificates import good_context


@dataclass(frozen=True)
class Received:
    """One request as it came."""

    path: str
    headers: dict[str, str]
    body: bytes
    at: float

    @property
    def id(self) -> str:
        """Return the id by which a receiver tells repeats."""
        return self.headers["webhook-id"]


class WebhookSink:
    """Counts connections and requests; a context manager."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self._context = context or good_context()
        self._lock = threading.Lock()
        self.closing = threading.Event()
        self.revived = threading.Event()
        self.connections = 0
        self.received: list[Received] = []
        self.open: Counter[str] = Counter()
        self.most_open: dict[str, int] = defaultdict(int)

    def url(self, path: str, *, host: str = "localhost") -> str:
        """Return the address of a path."""
        return f"https://{host}:{self.port}{path}"

    def __enter__(self) -> Self:
        self._server = _Server(("127.0.0.1", 0), self)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.closing.set()
        self.revived.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=10)

    def secured(self, sock: Any) -> Any:
        """Return the TLS side of a connection; the handshake comes with the first read.

        That is in the connection's own thread: nobody waits for it.
        """
        with self._lock:
            self.connections += 1
        return self._context.wrap_socket(
            sock, server_side=True, do_handshake_on_connect=False
        )

    def begin(self, seen: Received) -> None:
        """Write down a request that was read."""
        with self._lock:
            self.received.append(seen)
            self.open[seen.path] += 1
            self.most_open[seen.path] = max(
                self.most_open[seen.path], self.open[seen.path]
            )

    def knows(self, seen: Received) -> bool:
        """Say whether a receiver had this event before this request."""
        with self._lock:
            times = sum(
                one.path == seen.path and one.id == seen.id for one in self.received
            )
        return times > 1

    def end(self, path: str) -> None:
        """Write down that a request has its answer, or never gets one."""
        with self._lock:
            self.open[path] -= 1


class _Server(ThreadingHTTPServer):
    daemon_threads = False
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], sink: WebhookSink) -> None:
        self.sink = sink
        super().__init__(address, _Handler)

    def get_request(self) -> Any:
        sock, address = super().get_request()
        return self.sink.secured(sock), address

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is part of the test."""

    def shutdown_request(self, request: Any) -> None:
        self.close_request(request)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def do_POST(self) -> None:
        sink = self.server.sink
        body = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        seen = Received(self.path, headers, body, time.monotonic())
        sink.begin(seen)
        self.close_connection = True
        try:
            with suppress(OSError):  # a client that had enough
                self._answer(self.path.partition("?")[0].split("/")[1:], seen)
        finally:
            sink.end(self.path)

    def _answer(self, words: list[str], seen: Received) -> None:
        match words:
            case ["flaky", *rest]:
                known = self.server.sink.knows(seen)
                self._answer(["ok"] if known else rest, seen)
            case ["dead", *_]:
                self._wait_for(self.server.sink.revived)
                self._say(204)
            case ["ok", *_]:
                self._say(204)
            case ["status", code, *_]:
                self._say(int(code), b"no")
            case ["redirect", *_]:
                self._say(302, location="http://10.0.0.1/")
            case ["nonsense", *_]:
                self._say(302, location="https://nowhere:port/")
            case ["cut", *_]:
                self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
            case ["slow", *_]:
                self.server.sink.closing.wait(1)
                self._say(204)
            case ["hang", *_]:
                self._wait_for(self.server.sink.closing)
            case ["drip", *_]:
                while not self.server.sink.closing.wait(0.05):
                    self.wfile.write(b"H")
            case ["endless", *_]:
                self.wfile.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
                while not self.server.sink.closing.is_set():
                    self.wfile.write(b"x" * 65536)
            case _:
                self._say(404)

    def _wait_for(self, event: threading.Event) -> None:
        """Wait until it is set, or until the client has had enough and hangs up."""
        while not event.is_set():
            if select.select([self.connection], [], [], 0.02)[0]:
                raise ConnectionAbortedError

    def _say(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
