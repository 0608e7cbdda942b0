"""The Cloudflare queue that delivery events stand in, over its HTTP pull API.

A message that was leased is delivered again unless it is acknowledged before its lease
ends; one that was acknowledged is gone. Each call is one request, made once.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote

from core.canonical import sha256_hex
from core.deadline import Deadline
from core.http_answer import Answer
from core.http_once import NoAnswer, ask

BATCH: Final = 100
"""Messages of one lease: the most that the API gives."""

LONGEST_ANSWER: Final = 25_000_000
"""Octets of an answer: a batch of the largest messages (128 kB each) in base64."""

CALL_SECONDS: Final = 20.0
LEASE_SECONDS: Final = 120
"""A lease outlives two calls and what the database may take between them."""

_ID: Final = re.compile(r"[!-~]{1,64}")
_LEASE: Final = re.compile(r"[!-~]{1,8192}")


class QueueFailed(Exception):
    """A call did not do what it should; ``code`` says why, in one word.

    Whatever it was about is in the queue still, or has been stored.
    """

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True, slots=True)
class Leased:
    """One message of the queue, ours until its lease ends. ``body`` is as it came."""

    id: str
    lease_id: str = field(repr=False)
    body: object = field(repr=False)
    published_at: datetime | None

    @property
    def octets(self) -> bytes:
        """Return the body as it can be kept, whatever it is."""
        text = self.body if isinstance(self.body, str) else json.dumps(self.body)
        return text.encode(errors="backslashreplace")


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudflareQueue:
    """Speaks the API of one queue. Knows nothing of rows, retries or Celery.

    ``base`` is the API's URL without a slash at its end.
    """

    account_id: str
    queue_id: str
    token: str = field(repr=False)
    base: str
    seconds: float = CALL_SECONDS

    def lease(self) -> list[Leased]:
        """Return the next messages, at most ``BATCH``; raises QueueFailed."""
        asked = {"batch_size": BATCH, "visibility_timeout_ms": LEASE_SECONDS * 1000}
        listed = self._ask("pull", asked).get("messages")
        if not isinstance(listed, list | None):
            raise QueueFailed("pull_not_understood")
        found = map(_leased, listed or ())  # the field is optional, so none is empty
        return [leased for leased in found if leased is not None]

    def acknowledge(self, leased: Sequence[Leased]) -> int:
        """Let the queue forget these; return how many it has, as far as it says.

        Raises QueueFailed. What it has not forgotten comes again.
        """
        acks = [{"lease_id": message.lease_id} for message in leased]
        count = self._ask("ack", {"acks": acks, "retries": []}).get("ackCount")
        return count if isinstance(count, int) else len(acks)

    def _ask(self, verb: str, asked: dict[str, Any]) -> dict[str, Any]:
        account, queue = quote(self.account_id, safe=""), quote(self.queue_id, safe="")
        try:
            answer = ask(
                "POST",
                f"{self.base}/accounts/{account}/queues/{queue}/messages/{verb}",
                headers={
                    "Authorization": f"Bearer {self.token}",
                    "Content-Type": "application/json",
                    "Accept": "application/json",
                    "Accept-Encoding": "identity",
                    "User-Agent": "pylota",
                },
                content=json.dumps(asked).encode(),
                deadline=Deadline(self.seconds),
                longest=LONGEST_ANSWER,
            )
        except NoAnswer:
            raise QueueFailed(f"{verb}_no_answer") from None
        return _result(verb, answer)


def _result(verb: str, answer: Answer) -> dict[str, Any]:
    """Return what a call brought; the envelope decides beside the status."""
    try:
        envelope = json.loads(answer.body)
    except (ValueError, RecursionError):
        envelope = None
    is_good = isinstance(envelope, dict) and envelope.get("success") is True
    result = envelope.get("result") if is_good else None
    if answer.status != 200 or not isinstance(result, dict):
        raise QueueFailed(f"{verb}_http_{answer.status}")
    return result


def _leased(entry: object) -> Leased | None:
    """Return one entry of an answer; None for one that could not be acknowledged."""
    if not isinstance(entry, dict):
        return None
    if (lease_id := _word(entry.get("lease_id"), _LEASE)) is None:
        return None
    return Leased(
        id=_word(entry.get("id"), _ID) or sha256_hex(lease_id.encode()),
        lease_id=lease_id,
        body=entry.get("body"),
        published_at=_published(entry.get("timestamp_ms")),
    )


def _word(value: object, form: re.Pattern[str]) -> str | None:
    is_word = isinstance(value, str) and form.fullmatch(value)
    return str(value) if is_word else None


def _published(milliseconds: object) -> datetime | None:
    if isinstance(milliseconds, bool) or not isinstance(milliseconds, int | float):
        return None
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return None
