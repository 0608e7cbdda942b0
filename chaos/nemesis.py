"""Who hurts the run: what happens when is drawn from the seed before it begins."""

import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from chaos.broker import Queue
from chaos.crew import Crew, Member
from chaos.database import AROUND, Database
from chaos.profiles import CLAIM, Profile
from tests.support.pg_proxy import Fault

Say = Callable[[str], None]

FROZEN_FOR = CLAIM + 2


@dataclass(frozen=True, slots=True, order=True)
class Blow:
    """One thing that is done, and when, in seconds from the beginning."""

    at: float
    what: str
    how: int


def blows(rng: random.Random, profile: Profile) -> list[Blow]:
    """Return all that will be done, in order.

    The slow ones have their own thirds of the time, so that each meets a run at work.
    """
    found = [
        Blow(rng.uniform(2, profile.seconds - 2), "kill", rng.randrange(2**16))
        for _ in range(profile.kills)
    ]
    found += [
        Blow(rng.uniform(0.5, profile.seconds - 2), "cut", n)
        for n in range(profile.cuts)
    ]
    slow = ["database", "broker", "web"] * profile.restarts
    slow += ["freeze"] * profile.freezes
    rng.shuffle(slow)
    step = profile.seconds / (len(slow) + 1)
    found += [
        Blow(step * (n + rng.uniform(0.6, 1.2)), what, rng.randrange(2**16))
        for n, what in enumerate(slow)
    ]
    return sorted(found)


class Nemesis:
    """Does all of it, one after the other; ``done`` counts, ``at`` says when."""

    def __init__(
        self,
        rng: random.Random,
        *,
        database: Database,
        queue: Queue,
        crew: Crew,
        say: Say,
    ) -> None:
        self._rng, self._say = rng, say
        self._database, self._queue, self._crew = database, queue, crew
        self.done: Counter[str] = Counter()
        self.at: list[float] = []
        self._thaws: list[threading.Timer] = []

    def run(self, wanted: list[Blow], *, began: float) -> None:
        """Strike at each time; return when the last has been done and undone."""
        for blow in wanted:
            time.sleep(max(0.0, began + blow.at - time.monotonic()))
            self._strike(blow)
        for timer in self._thaws:
            timer.join()

    def _strike(self, blow: Blow) -> None:
        match blow.what:
            case "kill":
                self._victim(blow).kill()
            case "cut":
                which = list(AROUND)[blow.how % len(AROUND)]
                is_after = blow.how // len(AROUND) % 2 == 0
                fault = Fault.CUT_AFTER if is_after else Fault.CUT_BEFORE
                self._database.cut(which, fault)
            case "freeze":
                self._freeze(blow)
            case "database":
                took = self._database.restart()
                self._say(f"database restarted without notice ({took:.1f} s)")
            case "broker":
                self._say(f"broker restarted, {self._queue.restart(self._rng)}")
            case "web":
                self._crew.restart_web()
                self._say("web killed and started again")
        self.done[blow.what] += 1
        if blow.what != "cut":
            self.at.append(time.monotonic())

    def _victim(self, blow: Blow) -> Member:
        return self._crew.workers[blow.how % len(self._crew.workers)]

    def _freeze(self, blow: Blow) -> None:
        frozen = self._victim(blow)
        frozen.signal(signal.SIGSTOP)
        timer = threading.Timer(FROZEN_FOR, frozen.signal, [signal.SIGCONT])
        timer.start()
        self._thaws.append(timer)
        self._say(f"{frozen.name} frozen for {FROZEN_FOR:.0f} s")
