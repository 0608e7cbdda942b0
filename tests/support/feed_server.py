"""A real HTTP server with a feed of events as the contract has it (section 5.3).

``after_id`` resumes after an event; a cursor pages within one read, belongs to its
filters, and may be told to expire.
"""

import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit

Query = dict[str, str]


@dataclass
class FeedServer:
    """Serves ``events``, ``page`` at a time; ``queries`` is what it was asked."""

    page: int = 3
    events: list[dict[str, Any]] = field(default_factory=list)
    queries: list[Query] = field(default_factory=list)
    faults: list[int] = field(default_factory=list)
    expire_cursors: bool = False

    def __enter__(self) -> Self:
        feed = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                query = dict(parse_qsl(urlsplit(self.path).query))
                status, body = feed.answer(urlsplit(self.path).path, query)
                content = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: Any) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=[0.01])
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def add(self, count: int, **changes: Any) -> None:
        """Let so many more events happen."""
        for _ in range(count):
            n = len(self.events) + 1
            event = {"id": f"evt_{n:026d}", "type": "message.sent", "sequence": n}
            event |= {"occurred_at": "2026-11-02T09:15:20.114Z", "data": {"n": n}}
            self.events.append({**event, **changes})

    def answer(self, path: str, query: Query) -> tuple[int, dict[str, Any]]:
        """Return the answer to one request."""
        self.queries.append(query)
        if self.faults:
            return self.faults.pop(0), {"sorry": True}
        if path != "/v1/events":
            return refusal(404, "route_not_found")
        filters = {name: query[name] for name in sorted(query) if name != "cursor"}
        start = query.get("after_id", "")
        if (cursor := query.get("cursor")) is not None:
            if self.expire_cursors:
                self.expire_cursors = False
                return refusal(410, "cursor_expired")
            bound, start = json.loads(cursor)
            if bound != filters:
                return refusal(400, "invalid_request")
        return 200, self._page(filters, start)

    def _page(self, filters: Query, start: str) -> dict[str, Any]:
        wanted = [
            event
            for event in self.events
            if event["id"] > start
            and filters.get("type", event["type"]) == event["type"]
        ]
        shown = wanted[: self.page]
        more = len(wanted) > self.page
        cursor = json.dumps([filters, shown[-1]["id"]]) if more else None
        return {"data": shown, "next_cursor": cursor}


def refusal(status: int, code: str) -> tuple[int, dict[str, Any]]:
    """Return a refusal in the API's envelope."""
    error = {"code": code, "message": "", "retryable": False, "fix": "", "details": {}}
    return status, {"error": error}
