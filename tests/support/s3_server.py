"""A small S3: objects with metadata in memory, behind a real HTTP server."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote


class S3Server(ThreadingHTTPServer):
    """Keeps what is put, answers what is asked, and fails on demand."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.stored: dict[str, tuple[bytes, dict[str, str]]] = {}
        self.order: list[tuple[str, str]] = []
        self.failing = 0
        self.page = 1000
        self.hung = threading.Event()
        self.hung.set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: S3Server
    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        meta = {
            name.lower(): value
            for name, value in self.headers.items()
            if name.lower().startswith("x-amz-meta-")
        }
        if self._goes_on():
            self.server.stored[self.path] = (body, meta)
            self._answer(200)

    def do_GET(self) -> None:
        if self._goes_on():
            if "list-type=2" in self.path:
                self._answer(200, self._listed())
                return
            body, meta = self.server.stored.get(self.path, (b"", {}))
            self._answer(200 if self.path in self.server.stored else 404, body, meta)

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_DELETE(self) -> None:
        if self._goes_on():
            self.server.stored.pop(self.path, None)
            self._answer(204)

    def _listed(self) -> bytes:
        """Return a page of keys in their order, as S3 does."""
        bucket, _, query = self.path.partition("?")
        asked = {name: values[0] for name, values in parse_qs(query).items()}
        names = (
            unquote(path).removeprefix(f"{bucket}/") for path in self.server.stored
        )
        wanted = sorted(
            name
            for name in names
            if name.startswith(asked.get("prefix", ""))
            and name > asked.get("start-after", "")
        )
        page = wanted[: self.server.page]
        rows = "".join(
            f"<Contents><Key>{name}</Key>"
            "<LastModified>2026-11-30T06:00:00.000Z</LastModified></Contents>"
            for name in page
        )
        more = str(len(wanted) > len(page)).lower()
        return (
            f"<ListBucketResult><IsTruncated>{more}</IsTruncated>{rows}"
            "</ListBucketResult>"
        ).encode()

    def _goes_on(self) -> bool:
        self.server.order.append((self.command, self.path))
        self.server.hung.wait(30)
        if self.server.failing:
            self._answer(self.server.failing)
        return not self.server.failing

    def _answer(
        self, status: int, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """Serve on a free loopback port until the block ends."""
    with S3Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield server
        finally:
            server.hung.set()
            server.shutdown()
            thread.join()
