"""Real processes for tests: start a worker or a web, wait until it is ready, hurt it.

The fixture ``processes`` ends all that a test started before its rows are removed.
Import it into the ``conftest.py`` of the folder that needs it.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import pytest
from django.conf import settings

from core.database import fetch_one
from tests.support.database import database_url
from tests.support.nursery import Child, nursery

ROOT = Path(__file__).resolve().parent.parent.parent
STANDS_IN_A_TRANSACTION: Final = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    " AND state = 'idle in transaction'"
    " AND state_change < clock_timestamp() - interval '150 milliseconds'"
)
READY_SECONDS = 90.0


def until(
    holds: Callable[[], object], *, seconds: float = 15.0, what: str = "the condition"
) -> None:
    """Poll until the condition holds; fail by name when the time is up."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            pytest.fail(f"{what} did not come true within {seconds} s")
        time.sleep(0.02)


def free_port() -> int:
    """Return a loopback port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass
class Running:
    """One started process, leader of its own group, and what it wrote."""

    name: str
    process: "subprocess.Popen[bytes] | Child"
    log: Path
    url: str = ""
    tasks_file: Path | None = None

    @property
    def tasks(self) -> list[str]:
        """Return the tasks a worker has begun, ``name argument``, after ``ready``."""
        if self.tasks_file is None or not self.tasks_file.exists():
            return []
        return self.tasks_file.read_text().splitlines()

    @property
    def pid(self) -> int:
        """Return the process id."""
        return self.process.pid

    @property
    def is_alive(self) -> bool:
        """Tell whether it has not ended."""
        return self.process.poll() is None

    @property
    def output(self) -> str:
        """Return all that it wrote so far."""
        return self.log.read_text(errors="replace")

    def signal(self, number: int) -> None:
        """Send a signal to this process alone."""
        os.kill(self.pid, number)

    def freeze(self) -> None:
        """Stop it where it stands."""
        self.signal(signal.SIGSTOP)

    def freeze_idle(self) -> None:
        """Stop it at an instant when it has no transaction open.

        In the middle of one it would keep its locks, the dispatchers' among them, and
        nobody would ring anything until the database ends its session.
        """
        for _ in range(100):
            self.freeze()
            time.sleep(0.2)
            if fetch_one(STANDS_IN_A_TRANSACTION) == (0,):
                return
            self.thaw()
            time.sleep(0.05)
        pytest.fail(f"{self.name} is never outside a transaction")

    def thaw(self) -> None:
        """Let it go on."""
        self.signal(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL the whole group, and reap."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait(timeout=10)

    def end(self, *, seconds: float = 10.0) -> float:
        """SIGTERM; return how many seconds it took to end, or fail."""
        started = time.monotonic()
        self.signal(signal.SIGTERM)
        try:
            self.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            pytest.fail(f"{self.name} did not end in {seconds} s:\n{self.output}")
        return time.monotonic() - started


NOT_INHERITED = ("PM_", "CELERY", "DJANGO", "PYTEST", "PYTHONDONTWRITEBYTECODE")


@dataclass
class Processes:
    """Starts processes against the test database, and ends them all."""

    folder: Path
    started: list[Running] = field(default_factory=list)

    def environment(self, given: Mapping[str, object]) -> dict[str, str]:
        """Return the environment of a child: this run's, with what a test changes.

        Bytecode is kept, as on a machine where nobody says otherwise: a second start
        compiles nothing.
        """
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(NOT_INHERITED)
        }
        return {
            **inherited,
            "PM_ENV": "local",
            "PM_DATA_DIR": str(settings.PM_DATA_DIR),
            "DATABASE_URL": database_url(),
            "CELERY_BROKER_URL": "memory://",
            "PM_RATE_PER_KEY": "0",
            "PM_RATE_PER_TENANT": "0",
            "PM_RATE_SENDS": "0",
            "PYTHONUNBUFFERED": "1",
            "PYTHONPATH": str(ROOT),
            **{name: str(value) for name, value in given.items()},
        }

    def run(
        self,
        name: str,
        command: list[str],
        environment: Mapping[str, object],
        *,
        pass_fds: tuple[int, ...] = (),
    ) -> Running:
        """Start any command."""
        with self._log(name).open("wb") as output:
            process = subprocess.Popen(
                command,
                env=self.environment(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=self.folder,
                pass_fds=pass_fds,
            )
        return self._keep(name, process)

    def worker(
        self,
        *,
        threads: int = 4,
        planted: str = "",
        arguments: tuple[str, ...] = (),
        wait: bool = True,
        **environment: object,
    ) -> Running:
        """Start a worker process and wait until it takes tasks."""
        reading, writing = os.pipe()
        tasks = self.folder / f"{len(self.started)}-tasks"
        words = (
            *("worker", "--concurrency", str(threads)),
            *("--without-gossip", "--without-mingle", "--without-heartbeat"),
            *("--hostname", f"w{len(self.started)}@%h", "--loglevel", "INFO"),
            *arguments,
        )
        given = {"PM_TEST_PLANTED": planted, "PM_TEST_TASKS": tasks, **environment}
        try:
            if "PYTHONPATH" in environment:  # read before any module is
                command = [sys.executable, "-m", "tests.support.planted", *words]
                given |= {"PM_READY_FD": writing}
                running = self.run("worker", command, given, pass_fds=(writing,))
            else:
                running = self._forked(words, given, ready=writing)
        finally:
            os.close(writing)
        running.tasks_file = tasks
        with os.fdopen(reading, "rb") as ready:
            if wait and not ready.read(1):
                pytest.fail(f"the worker did not start:\n{running.output}")
        return running

    def _forked(
        self, words: tuple[str, ...], given: Mapping[str, object], *, ready: int
    ) -> Running:
        with self._log("worker").open("wb") as output:
            child = nursery().start(
                words,
                self.environment(given),
                folder=self.folder,
                output=output.fileno(),
                ready=ready,
            )
        return self._keep("worker", child)

    def _log(self, name: str) -> Path:
        return self.folder / f"{len(self.started)}-{name}.log"

    def _keep(self, name: str, process: "subprocess.Popen[bytes] | Child") -> Running:
        running = Running(name, process, self._log(name))
        self.started.append(running)
        return running

    def web(
        self, *, threads: int = 8, planted: str = "", **environment: object
    ) -> Running:
        """Start a web process and wait until it answers."""
        port = free_port()
        running = self.run(
            "web",
            [
                *(sys.executable, "-m", "granian", "--interface", "wsgi"),
                *("--http", "1", "--no-ws", "--blocking-threads", str(threads)),
                *("--workers-kill-timeout", "7", "--host", "127.0.0.1"),
                *("--port", str(port), "tests.support.planted_wsgi:application"),
            ],
            {"PM_TEST_PLANTED": planted, **environment},
        )
        running.url = f"http://127.0.0.1:{port}"
        until(
            lambda: _answers(running),
            seconds=READY_SECONDS,
            what="an answer of the web process",
        )
        return running

    def end_all(self) -> None:
        """Kill what is left, frozen or not."""
        for running in reversed(self.started):
            running.kill()


def _answers(running: Running) -> bool:
    if not running.is_alive:
        pytest.fail(f"the web process ended:\n{running.output}")
    return health(running.url) != 0


def health(url: str) -> int:
    """Return the status that a web process gives of its health; 0 without an answer."""
    where = urlsplit(url)
    asked = HTTPConnection(str(where.hostname), where.port, timeout=2)
    try:
        asked.request("GET", "/health")
        return asked.getresponse().status
    except (OSError, HTTPException):
        return 0
    finally:
        asked.close()


@pytest.fixture
def processes(transactional_db: None, tmp_path: Path) -> Iterator[Processes]:
    """Start real processes; they are all gone before the test's rows are."""
    found = Processes(tmp_path)
    yield found
    found.end_all()
