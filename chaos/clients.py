"""The clients of the run: each repeats its key until it knows, and logs all answers."""

import random
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

import httpx

from chaos.profiles import BY_HTTP, Profile
from pylota.provisioning import Provisioned
from tests.support.invariants import KEY_HEADER

THREADS: Final = 12
PATIENCE: Final = 60.0
HURRY: Final = 0.03
FOR_NOW: Final = frozenset({"request_in_progress", "thread_busy"})


@dataclass(frozen=True, slots=True)
class Intent:
    """What a client will do under one key, drawn before the run."""

    key: str
    sender: int
    recipients: tuple[str, ...]
    at: float
    repeats: int
    at_once: bool
    impatient: bool
    other_body: bool
    cancels: bool


def intents(rng: random.Random, profile: Profile) -> list[Intent]:
    """Return what all clients will do, in the order of their beginning."""
    times = sorted(rng.uniform(0, profile.seconds) for _ in range(profile.keys))
    return [
        Intent(
            key=(key := f"k{n:04d}"),
            sender=2 if n % BY_HTTP == BY_HTTP - 1 else n % 2,
            recipients=tuple(
                f"{key}-{one}@example.net" for one in range(rng.choice((1, 1, 1, 2, 3)))
            ),
            at=at,
            repeats=rng.randint(1, 4),
            at_once=rng.random() < 0.3,
            impatient=rng.random() < 0.1,
            other_body=rng.random() < 0.02,
            cancels=rng.random() < 0.05,
        )
        for n, at in enumerate(times)
    ]


def last(number: int) -> Intent:
    """Return what one more client does when all else has been done: a plain send."""
    key = f"k{number:04d}"
    to = (f"{key}-0@example.net",)
    return Intent(key, 0, to, 0.0, 1, False, False, False, False)


@dataclass(frozen=True, slots=True)
class Answer:
    """One request as it was answered; status 0 is no answer."""

    status: int = 0
    code: str = ""
    message_id: str = ""

    @property
    def ends_it(self) -> bool:
        """Say whether the key needs no further request."""
        return 0 < self.status < 500 and self.code not in FOR_NOW


class Log:
    """All answers to sends by key, to changed bodies, and to cancels."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.sends: dict[str, list[Answer]] = defaultdict(list)
        self.changed: dict[str, Answer] = {}
        self.canceled: dict[str, Answer] = {}
        self.statuses: Counter[int] = Counter()

    def write(self, key: str, answer: Answer) -> Answer:
        """Keep the answer to a send."""
        with self._lock:
            self.sends[key].append(answer)
            self.statuses[answer.status] += 1
        return answer

    def ids(self) -> dict[str, set[str]]:
        """Return the message ids that each key was answered with, in a 202."""
        with self._lock:
            return {
                key: {answer.message_id for answer in answers if answer.status == 202}
                for key, answers in self.sends.items()
            }

    def id_of(self, key: str) -> str | None:
        """Return the message that a key stands for, if a client knows it by now."""
        with self._lock:
            found = (one.message_id for one in self.sends[key] if one.status == 202)
            return next(found, None)


class Clients:
    """Runs the intents against the API, at their times."""

    def __init__(self, url: str, senders: Sequence[Provisioned]) -> None:
        self._senders, self.log = senders, Log()
        self.done = 0
        # TLS is not spoken here; a connection for each request, as strangers have
        self._http = httpx.Client(
            base_url=url,
            verify=False,  # noqa: S501  plain HTTP on loopback
            trust_env=False,
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=0),
        )

    def run(self, wanted: Sequence[Intent], *, began: float) -> None:
        """Return when every client knows what became of its key, or has given up."""
        with ThreadPoolExecutor(THREADS) as pool:
            running = []
            for intent in wanted:
                time.sleep(max(0.0, began + intent.at - time.monotonic()))
                running.append(pool.submit(self._live, intent))
            for one in running:
                one.result()

    def ask_again(self, wanted: Sequence[Intent]) -> None:
        """Repeat sends whose end is known: their answers are checked with the rest."""
        for intent in wanted:
            self._until_known(intent)

    def get(self, path: str, **query: str | int) -> dict[str, Any] | None:
        """Return what a GET answers, or None without a 200."""
        key = self._senders[0].api_key
        try:
            answer = self._http.get(
                path,
                params=query,
                headers={"Authorization": f"Bearer {key}"},
                timeout=10,
            )
        except httpx.HTTPError:
            return None
        found: dict[str, Any] | None = (
            answer.json() if answer.status_code == 200 else None
        )
        return found

    def subscribe(self, url: str) -> None:
        """Have every event of the tenant told to a receiver; raises if refused."""
        account = self._senders[0]
        answer = self._ask(
            f"/v1/tenants/{account.tenant_id}/webhooks",
            {"url": url, "events": ["*"]},
            headers={"Idempotency-Key": "receiver"},
            api_key=account.api_key,
        )
        if answer.status != 201:
            raise RuntimeError(f"no webhook: {answer}")

    def queued(self) -> int:
        """Return how many messages are queued, or one page of them; -1: no answer."""
        pages = [
            self.get(f"/v1/identities/{one.identity_id}/messages", status="queued")
            for one in self._senders
        ]
        return sum(len(page["data"]) if page else -1 for page in pages)

    def close(self) -> None:
        """End the connections."""
        self._http.close()

    def _live(self, intent: Intent) -> None:
        if intent.impatient:
            self._send(intent, seconds=HURRY)
        if intent.at_once:
            threads = [
                threading.Thread(target=self._send, args=[intent])
                for _ in range(intent.repeats)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        else:
            for _ in range(intent.repeats - 1):
                self._send(intent)
        self._until_known(intent)
        if intent.other_body:
            self.log.changed[intent.key] = self._until(
                lambda: self._post(intent, text="Something else.")
            )
        if intent.cancels and (known := self.log.id_of(intent.key)):
            self.log.canceled[intent.key] = self._until(
                lambda: self._cancel(intent, known)
            )
        self.done += 1

    def _until_known(self, intent: Intent) -> None:
        self._until(lambda: self._send(intent))

    def _until(self, ask: Any) -> Answer:
        deadline = time.monotonic() + PATIENCE
        while True:
            answer: Answer = ask()
            if answer.ends_it or time.monotonic() > deadline:
                return answer
            time.sleep(0.2)

    def _send(self, intent: Intent, *, seconds: float = 15.0) -> Answer:
        answer = self._post(intent, text=f"This is {intent.key}.", seconds=seconds)
        return self.log.write(intent.key, answer)

    def _post(self, intent: Intent, *, text: str, seconds: float = 15.0) -> Answer:
        sender = self._senders[intent.sender]
        return self._ask(
            f"/v1/identities/{sender.identity_id}/messages",
            {
                "to": list(intent.recipients),
                "subject": f"About {intent.key}",
                "text": text,
                "headers": {KEY_HEADER: intent.key},
            },
            headers={"Idempotency-Key": intent.key},
            api_key=sender.api_key,
            seconds=seconds,
        )

    def _cancel(self, intent: Intent, message_id: str) -> Answer:
        sender = self._senders[intent.sender]
        where = f"/v1/identities/{sender.identity_id}/messages/{message_id}/cancel"
        return self._ask(where, {}, headers={}, api_key=sender.api_key)

    def _ask(
        self,
        path: str,
        body: dict[str, Any],
        *,
        headers: dict[str, str],
        api_key: str,
        seconds: float = 15.0,
    ) -> Answer:
        try:
            answer = self._http.post(
                path,
                json=body,
                headers={"Authorization": f"Bearer {api_key}", **headers},
                timeout=seconds,
            )
            said = answer.json()
        except (httpx.HTTPError, ValueError):
            return Answer()
        code = str(said.get("error", {}).get("code", "")) if answer.is_error else ""
        return Answer(answer.status_code, code, str(said.get("id", "")))
