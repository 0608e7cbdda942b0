"""The Python client on a clock of its own, before a server that answers by script."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx

from pylota_client import Client, Clock

IDENTITY = "idn_01K00000000000000000000000"
MESSAGE = "msg_01K00000000000000000000000"
API_KEY = "pmk_live_abcdefghijkl_opensesame"
START = datetime(2026, 11, 2, 9, 0, tzinfo=UTC)

Step = httpx.Response | Exception | Callable[[], httpx.Response]


@dataclass
class FakeClock(Clock):
    """A clock that sleeping moves on; every spread is the largest."""

    slept: list[float] = field(default_factory=list)
    passed: float = 0.0

    def monotonic(self) -> float:
        return self.passed

    def now(self) -> datetime:
        return START + timedelta(seconds=self.passed)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.passed += seconds

    def spread(self) -> float:
        return 1.0


@dataclass
class Scripted:
    """Answers each request with the next step; the last one stays."""

    steps: list[Step]
    seen: list[httpx.Request] = field(default_factory=list)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.seen.append(request)
        step = self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]
        if isinstance(step, Exception):
            raise step
        if isinstance(step, httpx.Response):
            return httpx.Response(
                step.status_code, headers=step.headers, content=step.content
            )
        return step()

    @property
    def keys(self) -> list[str | None]:
        """Return the Idempotency-Key of each request."""
        return [request.headers.get("Idempotency-Key") for request in self.seen]


def scripted(steps: Iterable[Step], **given: Any) -> tuple[Client, Scripted, FakeClock]:
    """Return a client whose server answers so, what it sees, and the clock."""
    server, clock = Scripted(list(steps)), FakeClock()
    client = Client(
        "http://mail.example",
        API_KEY,
        transport=httpx.MockTransport(server),
        clock=clock,
        **given,
    )
    return client, server, clock


def message_json(**changes: Any) -> dict[str, Any]:
    """Return a message as the API shows it."""
    return {
        "id": MESSAGE,
        "thread_id": "thr_01K00000000000000000000000",
        "identity_id": IDENTITY,
        "direction": "outbound",
        "status": "queued",
        "to": [{"address": "jo@example.net", "name": None}],
        "sent_at": "2026-11-02T09:00:00Z",
        **changes,
    }


def answer(status: int, body: object, **headers: str) -> httpx.Response:
    """Return an answer with a JSON body."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.Response(status, headers=named, content=json.dumps(body).encode())


def accepted(*, deduplicated: bool = False) -> httpx.Response:
    """Return the answer to an accepted send."""
    return answer(202, message_json(deduplicated=deduplicated))


def refused(
    status: int, code: str, *, retryable: object = False, **details: Any
) -> httpx.Response:
    """Return a refusal in the API's envelope."""
    error = {
        "code": code,
        "message": "It is so.",
        "retryable": retryable,
        "fix": "Do that.",
        "request_id": "req_1",
        "details": details,
    }
    return answer(status, {"error": error})


def html(status: int, **headers: str) -> httpx.Response:
    """Return what a gateway says by itself."""
    return httpx.Response(status, headers=headers, content=b"<h1>Sorry</h1>")
