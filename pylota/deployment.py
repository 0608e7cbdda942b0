"""All of Pylota on one machine, in the foreground: database, web, workers, beat.

``manage.py up`` and ``manage.py demo`` run it.
"""

import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, TracebackType
from typing import Final, Self

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.db import connection

from domains.services import platform_relay
from pylota import checks, web
from pylota.embedded import defaults
from pylota.one_at_a_time import Place
from pylota.supervisor import POLL_SECONDS, Program, Supervisor

LOCAL_GRACE: Final = 8.0
"""How long ``up`` waits for calls in flight in the local environment, in seconds."""

IN_MEMORY: Final = "memory:"


class StopAsked(BaseException):
    """A signal asked this process to end; raised in the main thread, once."""


class Deployment:
    """Starts everything, watches it, and ends everything.

    ``port`` 0 takes a free one; so does a port that is in use, if it ``may_move``.
    ``environment`` is laid over the children's. ``say``
    gets one line for each step, ``begin`` a step's name as it begins. Use it as a
    context, in the main thread::

        with Deployment(port=0) as deployment:
            ...  # deployment.url answers
            deployment.wait()
    """

    def __init__(
        self,
        *,
        port: int = 8000,
        host: str = "127.0.0.1",
        may_move: bool = False,
        environment: Mapping[str, str] | None = None,
        say: Callable[[str], None] | None = None,
        begin: Callable[[str], None] | None = None,
    ) -> None:
        self.host = host
        self.port = port
        self._may_move = may_move
        self._environment = dict(environment or {})
        self._say = say or _print
        self._begin = begin or _ignore
        self._place = Place(settings.PM_DATA_DIR)
        self._supervisor = Supervisor(self._say)
        self._asked_at: float | None = None
        self._is_stopping = False
        self._handlers: dict[int, object] = {}

    @property
    def url(self) -> str:
        """Return where the web answers."""
        return f"http://{self.host}:{self.port}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        self.stop()
        return kind is not None and issubclass(kind, StopAsked)

    def start(self) -> None:
        """Start all, one line a step; leave nothing running if that fails.

        Raises StartFailed, ImproperlyConfigured, or StopAsked on a signal meanwhile.
        """
        self._take_signals()
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def wait(self) -> None:
        """Keep all running until a signal asks for the end; then raise StopAsked."""
        while True:
            self._supervisor.watch()
            time.sleep(POLL_SECONDS)

    def stop(self) -> None:
        """End all: 8 s of grace in the local environment, else the longest call's.

        A second Ctrl-C ends the grace at once. Safe to call twice.
        """
        self._is_stopping = True
        self._supervisor.stop(seconds=grace())
        connection.close()
        if defaults.current is not None:
            defaults.current.stop()
        self._place.leave()
        self._give_signals_back()

    def _start(self) -> None:
        self._place.take()
        if settings.LOCAL:
            self._say("local environment: for development, with secrets of its own")
            self._say("webhooks and relays may lead to this machine and its network")
        self.port = self._free_port()
        self._place.tell(self.url)
        self._tell_of_the_database()
        with self._timed("migrations") as detail:
            detail.append(migrate())
        checks.verify_session()
        programs = [self._web(), *self._workers()]
        with self._timed("web, worker, beat", self.url):
            self._supervisor.start(programs)
        if catcher_is_wanted():
            # afterwards: the others start on all processors, and serve a second earlier
            self._supervisor.start([self._catcher()])
            if (relay := platform_relay()) is not None:
                where = f"smtps://{relay.host}:{relay.port}"
                self._say(line("catcher (SMTP over TLS)", detail=where))

    def _free_port(self) -> int:
        try:
            return free_port(self.host, self.port)
        except ImproperlyConfigured:
            if not self._may_move:
                raise
            self._say(f"port {self.port} is in use: taking a free one")
            return free_port(self.host, 0)

    def _tell_of_the_database(self) -> None:
        server = defaults.current
        if server is not None:
            name = f"PostgreSQL {server.version} embedded"
            self._say(line(name, server.seconds, short(server.base)))
        else:
            with self._timed("PostgreSQL"):
                connection.ensure_connection()

    def _web(self) -> Program:
        return self._program(
            "web",
            web.command(self.host, self.port),
            is_ready=lambda: web.answers(self.host, self.port),
        )

    def _workers(self) -> list[Program]:
        return [
            self._program(
                f"worker {n}" if settings.PM_WORKERS > 1 else "worker",
                worker_command(f"worker{n}", with_beat=n == 1),
                announces=True,
            )
            for n in range(1, worker_count() + 1)
        ]

    def _catcher(self) -> Program:
        command = [sys.executable, "manage.py", "catcher"]
        return self._program("catcher", command, announces=True)

    def _program(
        self,
        name: str,
        command: list[str],
        *,
        announces: bool = False,
        is_ready: Callable[[], bool] = lambda: True,
    ) -> Program:
        log = settings.PM_DATA_DIR / "log" / f"{name.replace(' ', '-')}.log"
        return Program(
            name=name,
            command=command,
            environment=self._children_environment(),
            folder=settings.ROOT,  # the first on the path: a stranger's would be, else
            log=log if settings.LOCAL else None,
            announces=announces,
            is_ready=is_ready,
        )

    def _children_environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "PM_ENV": settings.PM_ENV,
            "PM_DATA_DIR": str(settings.PM_DATA_DIR),
            "PM_API_HOST": settings.PM_API_HOST,
            "DJANGO_SETTINGS_MODULE": "pylota.settings",
            "PYTHONUNBUFFERED": "1",
            **self._environment,
        }

    @contextmanager
    def _timed(self, name: str, detail: str = "") -> Iterator[list[str]]:
        self._begin(name)
        began = time.monotonic()
        details = [detail]
        yield details
        self._say(line(name, time.monotonic() - began, " ".join(filter(None, details))))

    def _take_signals(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            self._handlers[number] = signal.signal(number, self._asked)

    def _give_signals_back(self) -> None:
        while self._handlers:
            number, handler = self._handlers.popitem()
            signal.signal(number, handler)  # type: ignore[arg-type]  # what signal gave

    def _asked(self, number: int, frame: FrameType | None) -> None:
        """End; asked a second time, end without grace.

        Two signals within 0.3 s are one wish: a terminal and ``make`` both send one.
        """
        now = time.monotonic()
        if self._asked_at is None:
            self._asked_at = now
            if not self._is_stopping:
                raise StopAsked
        elif now - self._asked_at > 0.3:
            self._supervisor.is_hurried = True


def grace() -> float:
    """Return how long calls in flight may take to end, in seconds.

    Local: 8, and a call in flight may end ``uncertain``. Else the SMTP deadline and 10
    more, so that none does (architecture section 9, "end of up").
    """
    if settings.LOCAL:
        return LOCAL_GRACE
    return float(settings.PM_CLAIM_SECONDS) * 0.8 + 10


def catcher_is_wanted() -> bool:
    """Tell whether mail goes to the catcher: in the local environment, by default."""
    to_a_relay = settings.PM_PLATFORM_TRANSPORT == "smtp"
    return settings.LOCAL and to_a_relay and not settings.PM_PLATFORM_RELAY_URL


def worker_count() -> int:
    """Return how many worker processes to run; raises ImproperlyConfigured."""
    count: int = settings.PM_WORKERS
    if count > 1 and settings.CELERY_BROKER_URL.startswith(IN_MEMORY):
        raise ImproperlyConfigured(
            f"config_invalid: PM_WORKERS is {count}, but memory:// lives inside one "
            "process. Set CELERY_BROKER_URL to a broker, or PM_WORKERS to 1."
        )
    return count


def worker_command(name: str, *, with_beat: bool) -> list[str]:
    """Return the command of a worker process.

    Without gossip, mingle and heartbeat, which only workers that know each other need:
    they triple the time it takes to start.
    """
    return [
        *(sys.executable, "-m", "celery", "-A", "pylota", "worker"),
        *("--without-gossip", "--without-mingle", "--without-heartbeat"),
        *("--hostname", f"{name}@%h", "--loglevel", settings.PM_LOG_LEVEL.upper()),
        *(["--beat-thread"] if with_beat else []),
    ]


def migrate() -> str:
    """Bring the database up to date; say what there was to do."""
    connection.close()
    due = checks.due_migrations()
    if due:
        call_command("migrate", verbosity=0, interactive=False)
    connection.close()
    return f"{len(due)} applied" if due else "none were due"


def free_port(host: str, port: int) -> int:
    """Return the port to serve on: the given one if nobody listens there, or any.

    Raises ImproperlyConfigured. The web server itself would share a port with another.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise ImproperlyConfigured(
                f"port {port} on {host} cannot be used ({error.strerror}). "
                "Choose another with --port, or 0 for any."
            ) from None
        found: int = probe.getsockname()[1]
        return found


def line(name: str, seconds: float | None = None, detail: str = "") -> str:
    """Return one line of the start: what, ready, how long it took, and a detail."""
    took = f"{seconds:.1f} s" if seconds is not None else ""
    return f"{name:<26} ready  {took:<6} {detail}".rstrip()


def short(path: Path) -> str:
    """Return a path as a person here would type it."""
    return str(
        path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    )


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _ignore(text: str) -> None:
    """Show nothing of a step before it has ended."""
