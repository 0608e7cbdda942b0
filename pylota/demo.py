"""What ``manage.py demo`` shows: one request made twice, one mail. Public HTTP only."""

import http.client
import json
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pylota.catcher.store import CaughtMail
from pylota.provisioning import Provisioned

PATIENCE: Final = 20.0
"""How long a status may take to come, in seconds."""

POLL: Final = 0.02
DELIVERED, TIMEOUT = "delivered@simulator.invalid", "timeout@simulator.invalid"


class DemoFailed(Exception):
    """A step did not end as it should; the text says which, and what came instead."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One HTTP answer of the API."""

    status: int
    headers: Mapping[str, str]
    body: dict[str, Any]

    @property
    def is_replay(self) -> bool:
        """Tell whether the ledger answered."""
        return self.headers.get("idempotent-replayed") == "true"


@dataclass(frozen=True, slots=True)
class Mailbox:
    """One identity's messages, over HTTP, with its tenant's key."""

    host: str
    port: int
    identity_id: str
    api_key: str = field(repr=False)

    @property
    def path(self) -> str:
        """Return where messages are sent to."""
        return f"/v1/identities/{self.identity_id}/messages"

    def send(self, body: Mapping[str, Any], *, key: str) -> Answer:
        """POST one message under an Idempotency-Key."""
        headers = {"Idempotency-Key": key, "Content-Type": "application/json"}
        return self._ask("POST", self.path, json.dumps(body).encode(), headers)

    def status(self, message_id: str) -> str:
        """Return what became of a message so far."""
        answer = self._ask("GET", f"{self.path}/{message_id}", None, {})
        return str(_expect(answer, 200, "GET of the message").body["status"])

    def _ask(
        self, verb: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> Answer:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=35)
        try:
            connection.request(
                verb,
                path,
                body,
                {"Authorization": f"Bearer {self.api_key}", **headers},
            )
            got = connection.getresponse()
            content = json.loads(got.read() or b"{}")
            lowered = {name.lower(): value for name, value in got.getheaders()}
            return Answer(got.status, lowered, content)
        finally:
            connection.close()


def _expect(answer: Answer, status: int, step: str) -> Answer:
    if answer.status != status:
        shown = json.dumps(answer.body)[:500]
        raise DemoFailed(f"{step}: expected {status}, got {answer.status} {shown}")
    return answer


@dataclass(frozen=True, slots=True)
class Demo:
    """The steps, in order; ``say`` gets one plain line for each."""

    live: Mailbox
    test: Mailbox
    mail: CaughtMail
    base_url: str
    say: Callable[[str], None]

    def run(self) -> str:
        """Show all of it, and return the number that this demo drew.

        Raises DemoFailed at the first step that goes wrong.
        """
        key, body, message_id, began = self._first()
        self._again(key, body, message_id)
        self._another_body(key, body)
        self._arrival(message_id, str(body["subject"]), began)
        self._delivered()
        self._uncertain()
        return key.rpartition("-")[2]

    def _first(self) -> tuple[str, dict[str, Any], str, float]:
        for number in _numbers():
            key, body = f"demo-{number}", _booking(number)
            began = time.monotonic()
            answer = _expect(self.live.send(body, key=key), 202, "the first request")
            if answer.is_replay:  # an earlier demo drew this number
                continue
            message_id, status = _identified(answer)
            posted = f"POST {self.live.path}".replace(
                self.live.identity_id, short(self.live.identity_id)
            )
            self._asked(posted, key, f"202  {short(message_id)}  {status}")
            return key, body, message_id, began
        raise AssertionError("unreachable: numbers do not end")

    def _again(self, key: str, body: dict[str, Any], message_id: str) -> None:
        answer = _expect(self.live.send(body, key=key), 202, "the same request again")
        replayed = answer.is_replay and answer.body.get("deduplicated") is True
        if not replayed or _identified(answer)[0] != message_id:
            raise DemoFailed(f"the same request again: no replay, but {answer.body}")
        ended = f"202  {short(message_id)}  replayed, nothing sent"
        self._asked("the same request again", key, ended)

    def _another_body(self, key: str, body: dict[str, Any]) -> None:
        other = {**body, "text": "Another text under the same key."}
        answer = _expect(self.live.send(other, key=key), 409, "another body")
        code = answer.body.get("error", {}).get("code", "no code")
        self._asked("another body under the same key", key, f"409  {code}")

    def _asked(self, what: str, key: str, ended: str) -> None:
        self.say(f"{what:<38} Idempotency-Key: {key:<10}  {ended}")

    def _arrival(self, message_id: str, subject: str, began: float) -> None:
        path = self._follow(self.live, message_id, "submitted")
        took = time.monotonic() - began
        caught = [m for m in self.mail.newest() if m.subject == subject]
        if len(caught) != 1:
            raise DemoFailed(f"{len(caught)} mails arrived for one key, not 1")
        self.say(
            f"{short(message_id)}  {path}  {took:.2f} s    "
            f'1 mail arrived: "{subject}"   {self.base_url}/local/inbox'
        )

    def _delivered(self) -> None:
        began = time.monotonic()
        _, path = self._simulated(DELIVERED, "delivered")
        took = time.monotonic() - began
        self.say(f"test tenant: {DELIVERED}  {path}  {took:.1f} s")

    def _uncertain(self) -> None:
        message_id, path = self._simulated(TIMEOUT, "uncertain")
        page = f"{self.base_url}/admin/mailboxes/message/{message_id}/change/"
        self.say(f"test tenant: {TIMEOUT:<27}  {path}    settle it: {page}")

    def _simulated(self, recipient: str, end: str) -> tuple[str, str]:
        body = {"to": [recipient], "subject": f"A test to {recipient}", "text": "Hi"}
        key = f"demo-{secrets.token_hex(8)}"
        answer = _expect(self.test.send(body, key=key), 202, f"a test to {recipient}")
        message_id, _ = _identified(answer)
        return message_id, self._follow(self.test, message_id, end)

    def _follow(self, mailbox: Mailbox, message_id: str, end: str) -> str:
        """Return the statuses that a message goes through, up to this one."""
        seen = ["queued"]
        deadline = time.monotonic() + PATIENCE
        while seen[-1] != end:
            status = mailbox.status(message_id)
            if status != seen[-1]:
                seen.append(status)
            if time.monotonic() > deadline:
                raise DemoFailed(f"{message_id}: {' → '.join(seen)}, never {end}")
            time.sleep(POLL)
        return " → ".join(seen)


def _numbers() -> Iterator[int]:
    while True:
        yield 1000 + secrets.randbelow(9000)


def _booking(number: int) -> dict[str, Any]:
    return {
        "to": ["guest@example.com"],
        "subject": f"Your booking {number}",
        "text": f"Booking {number} is confirmed. We look forward to seeing you.",
        "html": f"<p>Booking <b>{number}</b> is confirmed.</p>",
    }


def _identified(answer: Answer) -> tuple[str, str]:
    message = answer.body.get("message", answer.body)
    return str(message["id"]), str(message["status"])


def short(identifier: str) -> str:
    """Return an id cut for a line: its kind and its first characters."""
    return f"{identifier[:6]}…"


def how_to_go_on(
    base_url: str, made: Provisioned, *, password: str, number: str
) -> list[str]:
    """Return the last lines: the admin, the key, and two ways to send with it.

    The number keeps a later demo's line from being a replay of this one's.
    """
    body = '{"to":["you@example.com"],"subject":"Hello","text":"Hi"}'
    return [
        f"admin   {base_url}/admin/   admin / {password}",
        f"key     Bearer {made.api_key}",
        f"shell   export IDENTITY={made.identity_id} KEY={made.api_key}",
        f"try     curl -X POST {base_url}/v1/identities/{made.identity_id}/messages"
        f" -H 'Authorization: Bearer {made.api_key}'"
        f" -H 'Idempotency-Key: my-first-{number}'"
        f" -H 'Content-Type: application/json' -d '{body}'",
        "stop    Ctrl-C",
    ]
