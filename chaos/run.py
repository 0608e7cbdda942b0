"""One run, from the first start to the verdict. Django is set up before it is read."""

import json
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from io import StringIO
from pathlib import Path
from typing import Final

from django.core.management import call_command
from django.db import connection

from chaos import provider, relays
from chaos.broker import Queue
from chaos.clients import Clients, intents, last
from chaos.crew import Crew, environment_of
from chaos.database import Database
from chaos.mutants import MUTANT
from chaos.nemesis import Nemesis, blows
from chaos.profiles import CALM, PACE, WORKERS, Profile
from chaos.reader import Reader
from chaos.relays import Relays
from chaos.verdict import Outcome, Verdict, verdict
from chaos.worker import COPIED
from pylota.deployment import free_port
from pylota.provisioning import Provisioned
from pylota.settings import database_from
from tests.support.certificates import authority
from tests.support.smtp_seen import Connection
from tests.support.webhook_sink import WebhookSink

TICK: Final = 2.5
OVERTIME: Final = 35.0
"""How long the relays may go on after the clients' time, until all was done, in s."""

LEFT_OVER: Final = 15.0
"""How long they may at least after the last client, who may have come late."""

STILL: Final = 3.0
"""How long nothing new may come before the run counts as at rest, in seconds."""

ASKED_AGAIN: Final = 20
LOGIN: Final = "relay-user:relay-secret"


class Run:
    """Everything of one run; ``judged`` is what it comes to."""

    def __init__(
        self, profile: Profile, *, seed: int, folder: Path, queue: Queue, mutant: str
    ) -> None:
        self.profile = profile
        self._folder, self._queue, self._mutant = folder, queue, mutant
        self._began = time.monotonic()
        rng = random.Random(seed)
        self._intents = intents(rng, profile)
        self._blows = blows(rng, profile)
        self._rng = rng
        self._ringing = threading.Lock()
        self._parts = ExitStack()

    def say(self, text: str) -> None:
        """Print one line of progress with the seconds since the start."""
        print(f"{time.monotonic() - self._began:6.1f}  {text}", flush=True)

    def judged(self) -> Verdict:
        """Start all, hurt it, let it rest, and judge."""
        with self._parts:
            self._start()
            with self._reader, self._provider.telling(self._url):
                self._hurt()
                self._clients.ask_again(self._intents[:ASKED_AGAIN])
                self._clients.ask_again([last(self.profile.keys)])
                self.say("nothing hurts any more")
                has_rested = self._rest()
            self._reader.read_to_the_end()
            return verdict(
                self._outcome(has_rested=has_rested),
                url=self._database.direct_url,
                tenant_id=self._accounts[0].tenant_id,
            )

    def _start(self) -> None:
        enter = self._parts.enter_context
        self._relays = enter(relays.running(self._rng, self.profile, self._ring))
        self._provider = enter(provider.running(self._rng, self.profile))
        self._hooks = enter(WebhookSink())
        self._database = enter(Database(self._folder))
        connection.settings_dict |= database_from(self._database.direct_url)
        call_command("migrate", verbosity=0)
        self._accounts = provisioned(self._relays)
        connection.close()
        self.say("database migrated, three senders made")
        enter(self._queue)
        self._crew = enter(self._all_processes())
        self._url = f"http://127.0.0.1:{self._crew.port}"
        self._clients = Clients(self._url, self._accounts)
        self._parts.callback(self._clients.close)
        self._crew.wait_until_it_serves()
        self._clients.subscribe(self._hooks.url("/flaky/status/500"))
        self._reader = Reader(self._clients.get)
        workers = len(self._crew.workers)
        self.say(f"all is up over {self._queue.scheme}, workers: {workers}")

    def _all_processes(self) -> Crew:
        trusted = self._folder / "trusted.pem"
        trusted.write_text(authority().pem)
        given = {
            **PACE,
            **self._provider.settings(self._folder),
            "PM_DATA_DIR": str(self._folder),
            "DATABASE_URL": self._database.proxy.url,
            "CELERY_BROKER_URL": self._queue.url,
            "PM_RELAY_CA_FILE": str(trusted),
            "SSL_CERT_FILE": str(trusted),
            MUTANT: self._mutant,
        }
        is_own = self._queue.scheme == "memory"
        if is_own:  # nobody else can put a copy into it
            self._queue.copies_file = self._folder / "copied"
            given[COPIED] = str(self._queue.copies_file)
        return Crew(
            environment_of(given),
            port=free_port("127.0.0.1", 0),
            workers=1 if is_own else WORKERS,
            log=self._folder / "log",
        )

    def _hurt(self) -> None:
        """Let clients, nemesis and the relays' plans do all that was drawn."""
        self._nemesis = Nemesis(
            self._rng,
            database=self._database,
            queue=self._queue,
            crew=self._crew,
            say=self.say,
        )
        began = time.monotonic()
        work = [
            threading.Thread(
                target=self._clients.run, args=[self._intents], kwargs={"began": began}
            ),
            threading.Thread(
                target=self._nemesis.run, args=[self._blows], kwargs={"began": began}
            ),
        ]
        for thread in work:
            thread.start()
        latest = began + self.profile.seconds + OVERTIME
        while True:
            if any(thread.is_alive() for thread in work):
                latest = max(latest, time.monotonic() + LEFT_OVER)
            elif self._have_done_all or time.monotonic() > latest:
                break
            time.sleep(TICK)
            self._tell()
        self._relays.be_kind()
        self._provider.be_kind()
        self._database.proxy.forget_rules()

    @property
    def _have_done_all(self) -> bool:
        return self._relays.have_done_all and self._provider.has_done_all

    def _copies(self) -> Counter[tuple[str, str]]:
        return Counter(self._relays.copies()) + Counter(self._provider.copies())

    def _tell(self) -> None:
        met = self._relays.met()
        self.say(
            f"keys {self._clients.done}/{self.profile.keys}"
            f"  mails {self._copies().total()}"
            f"  kills {self._crew.ended[-signal.SIGKILL]}"
            f"  smtp faults {relays.faults_in(met).total()}"
            f"  http {dict(sorted(self._provider.did.items()))}"
            f"  copies {self._queue.copied}  events {len(self._reader.seen)}"
        )

    def _rest(self) -> bool:
        """Wait until nothing is queued and nothing new comes; False if it never is."""
        deadline = time.monotonic() + CALM
        still_since = time.monotonic()
        before: tuple[int, ...] = ()
        while time.monotonic() < deadline:
            now = (
                self._clients.queued(),
                self._copies().total(),
                len(self._reader.seen),
                len({one.id for one in self._hooks.received}),
            )
            if now != before or now[0]:
                before, still_since = now, time.monotonic()
            elif time.monotonic() - still_since >= STILL:
                return True
            time.sleep(0.25)
        self.say(f"not at rest: queued, mails, events, webhooks {before}")
        return False

    def _ring(self, seen: Connection) -> None:
        """Copy the task of the message that this conversation is about."""
        key = relays.key_in(seen)
        if (message_id := self._clients.log.id_of(key)) is not None:
            with self._ringing:
                self._queue.copy(message_id, times=relays.COPIES_A_RING)

    def _outcome(self, *, has_rested: bool) -> Outcome:
        met = self._relays.met()
        rules = self._database.rules
        longest = max((one.waiting for one in self._queue.lengths), default=0)
        self.say(
            f"commits cut {sum(rule.fired for rule in rules)} of {len(rules)},"
            f" answers {dict(sorted(self._clients.log.statuses.items()))},"
            f" faults {dict(sorted(relays.faults_in(met).items()))},"
            f" http {dict(self._provider.did)}, words {dict(self._provider.told)},"
            f" forgeries {dict(self._provider.forged)},"
            f" longest queue {longest},"
            f" ends of workers {dict(self._crew.ended)}"
        )
        return Outcome(
            profile=self.profile,
            log=self._clients.log,
            copies=self._copies(),
            taken_at=sorted(self._relays.taken_at() + self._provider.taken_at()),
            blows_at=self._nemesis.at,
            feed=self._reader.seen,
            hooked=[one.id for one in self._hooks.received],
            done=self._nemesis.done,
            killed=self._crew.ended[-signal.SIGKILL],
            wire_kills=relays.kills_in(met),
            smtp_faults=relays.faults_in(met),
            smtp_doubts=self._relays.doubted(),
            http=self._provider.did,
            said=dict(self._provider.says),
            told=self._provider.told,
            forged=self._provider.forged,
            copied=self._queue.copied,
            lengths=self._queue.lengths,
            has_rested=has_rested,
        )


def provisioned(taking: Relays) -> Sequence[Provisioned]:
    """Make a tenant of three senders: by a relay each, and by the HTTP provider."""
    implicit, starttls = (f"{LOGIN}@localhost:{one.port}" for one in taking.servers)
    ways = {
        "first": {"domain": "first.example", "relay": f"smtps://{implicit}"},
        "second": {"domain": "second.example", "relay": f"smtp://{starttls}"},
        "third": {},
    }
    return [_provisioned(name, **way) for name, way in ways.items()]


def _provisioned(name: str, **way: str) -> Provisioned:
    said = StringIO()
    call_command(
        "provision",
        tenant="chaos",
        mode="live",
        identity=name,
        json=True,
        stdout=said,
        **way,
    )
    return Provisioned(**json.loads(said.getvalue()))
