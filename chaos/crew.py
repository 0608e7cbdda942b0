"""The processes of Pylota in the run: web and workers, killed and started again."""

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from pylota import web
from tests.support.nursery import Child, nursery

ROOT: Final = Path(__file__).resolve().parents[1]
START_SECONDS: Final = 90.0


@dataclass
class Member:
    """One process that leads its group, and how it is started again."""

    name: str
    process: "subprocess.Popen[bytes] | Child"

    def kill(self) -> None:
        """SIGKILL the whole group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def signal(self, number: int) -> None:
        """Send a signal to the process, if it still lives."""
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process.pid, number)


class Crew:
    """Web (two processes behind one port) and workers, the first of them with beat.

    Whatever ends is started again at once, until ``__exit__``; ``ended`` counts the
    workers that did by how: minus the signal, or the exit status.
    """

    def __init__(
        self, environment: Mapping[str, str], *, port: int, workers: int, log: Path
    ) -> None:
        self._environment, self._log, self._wanted = environment, log, workers
        self.port = port
        self.workers: list[Member] = []
        self.ended: Counter[int] = Counter()
        self._closing = threading.Event()
        self._guard = threading.Lock()
        self._watch = threading.Thread(target=self._keep, name="crew", daemon=True)

    def __enter__(self) -> Self:
        self._log.mkdir(parents=True, exist_ok=True)
        self.web = self._start_web()
        self.workers = [self._start_worker(n) for n in range(self._wanted)]
        self._watch.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closing.set()
        if self._watch.is_alive():
            self._watch.join(10)
        for member in (self.web, *self.workers):
            member.kill()
            member.process.wait(timeout=10)

    def wait_until_it_serves(self) -> None:
        """Return when the web answers; raises RuntimeError when it never does."""
        deadline = time.monotonic() + START_SECONDS
        while not web.answers("127.0.0.1", self.port):
            if time.monotonic() > deadline:
                raise RuntimeError(f"the web does not answer; read {self._log}")
            time.sleep(0.1)

    def restart_web(self) -> None:
        """SIGKILL every process of the web, and start it again."""
        self.web.kill()
        self.web.process.wait(timeout=10)
        self.web = self._start_web()

    def _keep(self) -> None:
        while not self._closing.wait(0.05):
            for n, worker in enumerate(self.workers):
                if worker.process.poll() is not None:
                    worker.kill()  # what is left of its group
                    self.ended[worker.process.poll() or 0] += 1
                    self.workers[n] = self._start_worker(n)

    def _start_web(self) -> Member:
        command = [*web.command("127.0.0.1", self.port)[:-1], "chaos.wsgi:application"]
        with (self._log / "web.log").open("ab") as output:
            process = subprocess.Popen(
                command,
                env=dict(self._environment),
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return Member("web", process)

    def _start_worker(self, n: int) -> Member:
        words = (
            *("worker", "--without-gossip", "--without-mingle", "--without-heartbeat"),
            *("--hostname", f"worker{n}@%h", "--loglevel", "INFO"),
            *(["--beat-thread"] if n == 0 else []),
        )
        reading, writing = os.pipe()
        try:
            with (self._log / f"worker{n}.log").open("ab") as output:
                child = nursery().start(
                    words,
                    dict(self._environment),
                    folder=ROOT,
                    output=output.fileno(),
                    ready=writing,
                    module="chaos.worker",
                )
        finally:
            os.close(writing)
            os.close(reading)
        return Member(f"worker {n}", child)


def environment_of(given: Mapping[str, str]) -> dict[str, str]:
    """Return what the processes of Pylota are started with: no setting but ours."""
    strange = ("PM_", "CELERY", "DJANGO", "DATABASE_URL", "PYTHONDONTWRITEBYTECODE")
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(strange)
    }
    return {
        **kept,
        "PM_ENV": "local",
        "DJANGO_SETTINGS_MODULE": "pylota.settings",
        "PYTHONUNBUFFERED": "1",
        "PYTHONPATH": str(ROOT),
        **given,
    }
