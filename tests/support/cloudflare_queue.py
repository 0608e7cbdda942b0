"""A Cloudflare Queue of the tests, pulled over real HTTP: leases, and redelivery.

It is the account's Email Sending as well, so that one server is all of Cloudflare.
"""

import base64
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from typing import Any, Final

from django.test.utils import override_settings

from tests.support.cloudflare import account_at
from tests.support.cloudflare_server import (
    ACCOUNT,
    TOKEN,
    CloudflareServer,
    Say,
    Seen,
    Step,
    envelope,
    error,
)

QUEUE: Final = "9f8e7d6c5b4a39281706f5e4d3c2b1a0"
PATH: Final = f"/client/v4/accounts/{ACCOUNT}/queues/{QUEUE}/messages"


@dataclass
class Waiting:
    """One message of the queue; out of sight until ``visible_at``, in its seconds."""

    id: str
    body: object
    content_type: str
    timestamp_ms: object
    attempts: int = 0
    visible_at: float = 0.0


@dataclass
class Queue:
    """What stands in a queue, by the clock that ``now`` is."""

    now: float = 0.0
    waiting: dict[str, Waiting] = field(default_factory=dict)
    leases: dict[str, str] = field(default_factory=dict)
    """Each lease that was ever given, and whose it is: an old one acknowledges too."""

    def lease(self, most: int, seconds: float) -> list[dict[str, Any]]:
        """Return the messages in sight, and take them out of it for so long."""
        seen = [each for each in self.waiting.values() if each.visible_at <= self.now]
        return [self._leased(each, seconds) for each in seen[:most]]

    def _leased(self, message: Waiting, seconds: float) -> dict[str, Any]:
        message.attempts += 1
        message.visible_at = self.now + seconds
        lease_id = f"eyJhbGciOiJkaXIifQ..{message.id}.{message.attempts}"
        self.leases[lease_id] = message.id
        return {
            "body": message.body,
            "id": message.id,
            "timestamp_ms": message.timestamp_ms,
            "attempts": message.attempts,
            "metadata": {
                "CF-sourceMessageSource": "event_subscription",
                "CF-Content-Type": message.content_type,
            },
            "lease_id": lease_id,
        }

    def forget(self, lease_ids: list[str]) -> list[str]:
        """Remove what these leases are of; return those that are of nothing."""
        unknown = [each for each in lease_ids if each not in self.leases]
        for lease_id in lease_ids:
            self.waiting.pop(self.leases.get(lease_id, ""), None)
        return unknown


class QueueServer(CloudflareServer):
    """Serves one queue until the block ends.

    ``pulls`` and ``acks`` are met by ``on_pull`` and ``on_ack``, in their order, and
    then served. A fault that comes after the request was read (``hang``, ``half``,
    ``reset_after``) comes when the queue has done what was asked. ``most_acked`` bounds
    how many leases of one request it takes.
    """

    def __init__(self, *steps: Step) -> None:
        super().__init__(*steps)
        self.on_pull: list[Step] = []
        self.on_ack: list[Step] = []
        self.most_acked = 100
        self.queue = Queue()
        self._numbers = count(1)

    @property
    def sends(self) -> list[Seen]:
        """Return the sends of mail that were read whole."""
        return [seen for seen in self.requests if seen.path.endswith("/send")]

    @property
    def pulls(self) -> list[Seen]:
        """Return the pulls that were read whole."""
        return [seen for seen in self.requests if seen.path.endswith("/pull")]

    @property
    def acks(self) -> list[Seen]:
        """Return the acknowledgements that were read whole."""
        return [seen for seen in self.requests if seen.path.endswith("/ack")]

    def put(self, body: object, content_type: str = "json", **changes: Any) -> str:
        """Let somebody send a message to the queue; return its id.

        A ``json`` or ``bytes`` body goes out in base64, a ``text`` one as it is.
        """
        text = body if isinstance(body, str) else json.dumps(body)
        if content_type in ("json", "bytes"):
            text = base64.b64encode(text.encode()).decode()
        at = round(datetime.now(UTC).timestamp() * 1000)
        id_ = f"{next(self._numbers):032x}"
        given = {"id": id_, "body": text, "content_type": content_type}
        self.queue.waiting[id_] = Waiting(**{**given, "timestamp_ms": at, **changes})
        return id_

    def pass_time(self, seconds: float) -> None:
        """Let leases grow older."""
        self.queue.now += seconds

    def _step(self, method: str, target: str) -> Step:
        steps = {"pull": self.on_pull, "ack": self.on_ack}.get(
            target.rpartition("/")[2]
        )
        if steps is None:
            return super()._step(method, target)
        return steps.pop(0) if steps else self._take

    def _take(self, seen: Seen) -> Say:
        if seen.headers.get("authorization") != f"Bearer {TOKEN}":
            return error(401, "Authentication error")
        with self._lock:
            match seen.path:
                case path if path == f"{PATH}/pull":
                    return self._pull(seen.json)
                case path if path == f"{PATH}/ack":
                    return self._ack(seen.json)
                case path if "/queues/" in path:
                    return error(404, "Queue not found", 11000)
        return super()._take(seen)

    def _pull(self, asked: Mapping[str, Any]) -> Say:
        seconds = asked.get("visibility_timeout_ms", 30_000) / 1000
        leased = self.queue.lease(min(asked.get("batch_size", 5), 100), seconds)
        backlog = len(self.queue.waiting)
        return Say(
            200, envelope({"message_backlog_count": backlog, "messages": leased})
        )

    def _ack(self, asked: Mapping[str, Any]) -> Say:
        named = [entry["lease_id"] for entry in asked["acks"]]
        taken, left = named[: self.most_acked], named[self.most_acked :]
        unknown = [*self.queue.forget(taken), *left]
        done = {"ackCount": len(named) - len(unknown), "retryCount": 0}
        return Say(200, envelope({**done, "warnings": unknown}))


class pulling(override_settings):  # noqa: N801  reads like a function
    """Let the deployment's account and queue be those of this server."""

    def __init__(self, server: QueueServer, **changes: object) -> None:
        queue = {"PM_CF_QUEUE_ID": QUEUE}
        super().__init__(**{**account_at(server), **queue, **changes})


# --- what Cloudflare says ------------------------------------------------------------

KINDS: Final[Mapping[str, Mapping[str, Any]]] = {
    "delivered": {
        "delivery": {
            "status": "delivered",
            "provider": "gmail",
            "deliveryTimeMs": 1234,
            "smtpStatusCode": "250",
            "smtpEnhancedStatusCode": "2.0.0",
            "smtpResponse": "250 2.0.0 OK 1714820445 - gsmtp",
        },
    },
    "deferred": {
        "terminal": False,
        "delivery": {
            "status": "deferred",
            "provider": "external_smtp",
            "deliveryTimeMs": 2143,
            "smtpStatusCode": "451",
            "smtpEnhancedStatusCode": "4.2.0",
            "smtpResponse": "451 4.2.0 Temporary mailbox error",
        },
        "bounce": {
            "type": "soft",
            "classification": "temporary_failure",
            "reason": "451 4.2.0 Temporary mailbox error",
        },
    },
    "bounced": {
        "delivery": {
            "status": "bounced",
            "provider": "external_smtp",
            "deliveryTimeMs": 2143,
            "smtpStatusCode": "550",
            "smtpEnhancedStatusCode": "5.1.1",
            "smtpResponse": "550 5.1.1 User unknown",
        },
        "bounce": {
            "type": "hard",
            "classification": "permanent_failure",
            "reason": "550 5.1.1 User unknown",
        },
    },
    "failed": {
        "delivery": {"status": "failed"},
        "failure": {"reason": "delivery_failed"},
    },
    "rejected": {
        "delivery": {"status": "rejected"},
        "rejection": {
            "reason": "suppressed",
            "party": "recipient",
            "detail": "Recipient is suppressed",
        },
    },
    "complained": {
        "delivery": {"status": "complained"},
        "complaint": {"type": "abuse"},
    },
}
"""What the payload of each type holds beside what all hold."""


def said(kind: str, **changes: object) -> dict[str, Any]:
    """Return an event as Cloudflare publishes it; ``changes`` are of its payload."""
    common = {
        "eventId": f"0190d0c4-7e9a-7b3c-9f12-{kind:.>12}",
        "messageId": "0101018f7d0c4d9a-msg-deadbeef",
        "sender": "bookings@acme.example",
        "recipient": "jo@example.net",
        "terminal": True,
    }
    subject = {} if kind == "complained" else {"subject": "Your booking"}
    payload = {**common, **subject, **KINDS.get(kind, {}), **changes}
    return {
        "type": f"cf.email.sending.message.{kind}",
        "source": {
            "type": "email.sending",
            "zoneId": "023e105f4ecef8ad9ca31a8372d0c353",
            "domain": "acme.example",
        },
        "payload": payload,
        "metadata": {
            "accountId": ACCOUNT,
            "eventSubscriptionId": "1830c4bb612e43c3af7f4cada31fbf3f",
            "eventSchemaVersion": 1,
            "eventTimestamp": datetime.now(UTC).isoformat().replace("+00:00", "Z"),
        },
    }


HURTFUL: Final[tuple[object, ...]] = (
    *(None, True, 7, -1.5, 10**30, float("inf"), [], {}, ["x"], {"type": "hard"}),
    *("", " ", "\x00", "\ud800", "a\x00b\udfffc", "\u2028", "x" * 5000, "é@x.example"),
    {"type": 7, "smtpResponse": ["\x00"], "reason": "\ud800", "detail": {}},
    {"smtpResponse": "\x00\ud800" * 900, "smtpStatusCode": "\x00", "type": "\x00"},
    {"smtpStatusCode": 10**30, "smtpEnhancedStatusCode": "9" * 5000},
)


def hostile() -> Iterator[dict[str, Any]]:
    """Yield events that hold, in each field in turn, whatever may hurt a reader."""
    plain = said("rejected", bounce={}, failure={})
    for name in plain["payload"]:
        for value in HURTFUL:
            yield {**plain, "payload": {**plain["payload"], name: value}}
    for name in ("payload", "metadata", "source", "type"):
        for value in HURTFUL:
            yield {**plain, name: value}
