"""The HTTP provider of the run: an SES that fails by plan, counts, and speaks later.

It signs what it says of its mails as SNS does, says it twice and out of order, and
repeats what was not answered with 200. Beside it go forgeries, signed by a stranger.
"""

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import cycle
from pathlib import Path
from typing import Any, Final

import httpx

from chaos.profiles import Profile
from chaos.relays import key_of
from tests.support import sns
from tests.support.invariants import Copies
from tests.support.peers import process_of_peer
from tests.support.ses_server import (
    KEY_ID,
    REGION,
    SECRET,
    Act,
    SesCall,
    SesMail,
    SesServer,
    accept,
    answering,
    half_an_answer,
    refusing,
    reset_after_the_body,
    reset_before_the_body,
    ses_server,
)

SETTINGS: Final = {
    "PM_PLATFORM_TRANSPORT": "ses",
    "PM_SES_REGION": REGION,
    "PM_SES_ACCESS_KEY_ID": KEY_ID,
    "PM_SES_SECRET_ACCESS_KEY": SECRET,
    "PM_SES_CONFIGURATION_SET": "pylota-mail",
    "PM_SES_SNS_TOPIC_ARN": sns.TOPIC,
}
PATIENCE: Final = 60.0
FORGED_EVERY: Final = 4
HARMED_EVERY: Final = {29: ("Bounce",), 67: ("Delivery", "Complaint")}
"""Of how many mails one comes to harm, if it has one recipient: a sender with eleven
bounces or four complaints is paused, and refused from then on."""

AGAIN: Final = 1.0
ORDINARY: Final = ["Delivery"]
LATEST: Final = 4.0
"""How late a word may come, in seconds; some come before the answer is recorded."""


def hang(call: SesCall) -> None:
    """Store the mail and say nothing for longer than its caller waits."""
    call.store()
    call.server.ends.wait(9)


def killing(*, stored: bool, answered: bool = False) -> Act:
    """Kill whoever calls: before the mail is read, after it is stored, or answered."""

    def act(call: SesCall) -> None:
        if stored:
            message_id = call.store()
            if answered:
                call.answer(200, f'{{"MessageId": "{message_id}"}}'.encode())
        with suppress(LookupError, ProcessLookupError):
            os.kill(process_of_peer(call.client_address[1]), signal.SIGKILL)
        call.reset()

    return act


KILLS: Final = (
    killing(stored=False),
    killing(stored=True),
    killing(stored=True, answered=True),
)
DEFINITE: Final = (
    refusing(429, "TooManyRequestsException"),
    refusing(400, "MessageRejected"),
)
DOUBTFUL: Final = (
    refusing(500, "InternalFailure"),
    refusing(503),
    reset_before_the_body,
    reset_after_the_body,
    half_an_answer,
    hang,
    answering(200, b"<html>busy</html>", Content_Type="text/html"),
)
"""What leaves the caller in doubt, whether or not the mail was stored."""


def acts(rng: random.Random, profile: Profile) -> list[tuple[str, Act]]:
    """Return what becomes of the requests, in their order, each by its kind."""
    kinds: tuple[tuple[str, Sequence[Act], int], ...] = (
        ("kill", KILLS, profile.http_kills),
        ("definite", DEFINITE, profile.http_faults // 3),
        ("doubt", DOUBTFUL, profile.http_faults - profile.http_faults // 3),
    )
    found: list[tuple[str, Act]] = [
        (kind, act)
        for kind, all_acts, times in kinds
        for act, _ in zip(cycle(all_acts), range(times), strict=False)
    ]
    found += [("accept", accept)] * len(found)
    rng.shuffle(found)
    return found


class Provider:
    """The server, what it did, and the thread that tells of its mails."""

    def __init__(self, server: SesServer, rng: random.Random, profile: Profile) -> None:
        self.server = server
        self.did: Counter[str] = Counter()
        self.told: Counter[int] = Counter()
        self.forged: Counter[int] = Counter()
        self.says: dict[tuple[str, str], str] = {}
        self._rng = random.Random(rng.random())
        self._taken_at: list[float] = []
        self._closing = threading.Event()
        self._plan(acts(rng, profile))

    def _plan(self, wanted: list[tuple[str, Act]]) -> None:
        def noting(kind: str, act: Act) -> Act:
            def noted(call: SesCall) -> None:
                self.did[kind] += 1
                act(call)

            return noted

        self.server.acts.extend(noting(kind, act) for kind, act in wanted)

    @property
    def has_done_all(self) -> bool:
        """Say whether every request that was to be hurt has come."""
        return not self.server.acts

    def be_kind(self) -> None:
        """Accept whatever comes from now on."""
        self.server.acts.clear()

    def copies(self) -> Copies:
        """Return what was stored, by key and recipient."""
        return Counter(
            (key_of(mail.content), address)
            for mail in list(self.server.mails)
            for address in addresses_of(mail)
        )

    def taken_at(self) -> list[float]:
        """Return about when each mail was stored (monotonic seconds)."""
        return list(self._taken_at)

    def settings(self, folder: Path) -> Mapping[str, str]:
        """Return what processes need to send by it and to believe it."""
        (folder / sns.FILE).write_bytes(sns.certificate_pem(sns.rsa_key()))
        return {
            **SETTINGS,
            "PM_SES_ENDPOINT_URL": self.server.url,
            "PM_SNS_CERT_DIR": str(folder),
        }

    @contextmanager
    def telling(self, url: str) -> Iterator[None]:
        """Tell the hook of every mail while the block runs, and to the end after it."""
        thread = threading.Thread(target=self._tell_all, args=[f"{url}/hooks/ses"])
        thread.start()
        try:
            yield
        finally:
            self._closing.set()
            thread.join(PATIENCE)

    def _tell_all(self, hook: str) -> None:
        publisher = sns.Publisher()
        stranger = sns.Publisher(key=sns.rsa_key(name="stranger"))
        due: list[tuple[float, bytes]] = []
        seen, deadline = 0, None
        with httpx.Client(trust_env=False, timeout=10) as http:
            while due or not self._closing.is_set() or seen < len(self.server.mails):
                if self._closing.is_set():
                    deadline = deadline or time.monotonic() + PATIENCE
                    if time.monotonic() > deadline:
                        return
                for mail in self.server.mails[seen:]:
                    due += self._words_of(mail, seen, publisher)
                    if seen % FORGED_EVERY == 0:
                        self._forge(http, hook, stranger, mail)
                    self._taken_at.append(time.monotonic())
                    seen += 1
                due = [later for one in due if (later := self._say(http, hook, *one))]
                time.sleep(0.05)

    def _words_of(
        self, mail: SesMail, n: int, publisher: sns.Publisher
    ) -> Iterator[tuple[float, bytes]]:
        to = addresses_of(mail)
        harms = (list(kinds) for each, kinds in HARMED_EVERY.items() if n % each == 2)
        kinds = next(harms, ORDINARY) if len(to) == 1 else ORDINARY
        for address in to:
            self.says[key_of(mail.content), address] = END_OF[kinds[-1]]
        for kind in ("Send", *kinds):
            section = SECTIONS[kind](*to)
            body = sns.body_of(publisher.notification(event_of(mail, kind, section)))
            for _ in range(2):
                yield time.monotonic() + self._rng.uniform(0, LATEST), body

    def _forge(
        self, http: httpx.Client, hook: str, stranger: sns.Publisher, mail: SesMail
    ) -> None:
        section = sns.bounce(*addresses_of(mail))
        body = sns.body_of(stranger.notification(event_of(mail, "Bounce", section)))
        self.forged[self._post(http, hook, body)] += 1

    def _say(
        self, http: httpx.Client, hook: str, at: float, body: bytes
    ) -> tuple[float, bytes] | None:
        """Say it if it is time; return when to say it again, if it was not heard."""
        if time.monotonic() < at:
            return at, body
        status = self._post(http, hook, body)
        self.told[status] += 1
        return None if status == 200 else (time.monotonic() + AGAIN, body)

    def _post(self, http: httpx.Client, hook: str, body: bytes) -> int:
        headers = {"Content-Type": sns.PLAIN, "x-amz-sns-message-type": "Notification"}
        try:
            return http.post(hook, content=body, headers=headers).status_code
        except httpx.HTTPError:
            return 0


END_OF: Final = {
    "Delivery": "delivered",
    "Bounce": "bounced",
    "Complaint": "complained",
}
SECTIONS: Final[Mapping[str, Callable[..., sns.Fields]]] = {
    "Send": lambda *_: {"send": {}},
    "Delivery": sns.delivery,
    "Bounce": sns.bounce,
    "Complaint": sns.complaint,
}


def addresses_of(mail: SesMail) -> list[str]:
    """Return the recipients of a mail, however they were named."""
    return [address for field in mail.destination.values() for address in field]


def event_of(mail: SesMail, kind: str, section: Mapping[str, Any]) -> sns.Fields:
    """Return an event of a mail as SES writes it."""
    return sns.ses_event(
        kind,
        sender=mail.sender,
        to=addresses_of(mail),
        message_id=mail.id,
        subject=f"About {key_of(mail.content)}",
        tag=mail.tags.get("pylota_message"),
        **section,
    )


@contextmanager
def running(rng: random.Random, profile: Profile) -> Iterator[Provider]:
    """Run the provider."""
    with ses_server() as server:
        yield Provider(server, rng, profile)
