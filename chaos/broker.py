"""The broker of the run: a RabbitMQ or Redis of its own, or the one in the worker.

A restart is a SIGKILL and, half the time, the loss of its disk; then it starts again on
the same port. How many tasks wait in it is written down all the while.
"""

import random
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from kombu import Connection
from kombu.exceptions import OperationalError
from redis import Redis
from redis.exceptions import RedisError

from chaos.broker_servers import SERVERS, Server
from tests.support.brokers import Broker

MEASURED_EVERY: Final = 0.5
NAME: Final = "outbound"
"""The queue of the messages' tasks."""


class NoBroker(Exception):
    """The broker that was asked for is not installed."""


@dataclass(frozen=True, slots=True)
class Length:
    """How many tasks waited at a moment, and how many copies had been put in by then.

    ``at`` is in monotonic seconds.
    """

    at: float
    waiting: int
    copied: int


def found(wanted: str | None, folder: Path) -> "Queue":
    """Return the broker to use: the one that is wanted, else one that is installed.

    ``memory`` needs none. Raises NoBroker.
    """
    if wanted == "memory":
        return Queue(None)
    for server in SERVERS:
        if wanted in (None, server.scheme) and server.program():
            return Queue(server(folder / server.scheme))
    if wanted is None:
        return Queue(None)
    raise NoBroker(f"no program for a broker of the kind {wanted} is installed")


class Queue:
    """A broker as the run uses it.

    ``copies_file`` is where a worker with a broker of its own writes what it copied,
    and ``lengths_file`` how much waits in it.
    """

    def __init__(self, server: Server | None) -> None:
        self._server = server
        self._copied = 0
        self._lengths: list[Length] = []
        self._closing = threading.Event()
        self._measuring = threading.Thread(target=self._measure, daemon=True)
        self.copies_file: Path | None = None

    def __enter__(self) -> Self:
        if self._server is not None:
            self._server.start()
            self._broker = Broker(self._server.url)
            self._broker.empty()
            self._measuring.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closing.set()
        if self._server is not None:
            self._measuring.join(10)
            self._server.kill()

    @property
    def scheme(self) -> str:
        """Return ``amqp``, ``redis`` or ``memory``."""
        return self._server.scheme if self._server else "memory"

    @property
    def url(self) -> str:
        """Return where clients find it."""
        return self._server.url if self._server else "memory://"

    @property
    def copied(self) -> int:
        """Return how many copies of tasks it was given."""
        file = self.copies_file
        if file is None or not file.exists():
            return self._copied
        return len(file.read_text().splitlines())

    @property
    def lengths(self) -> list[Length]:
        """Return how long it was, in the order of time; nothing while it was away."""
        if self.copies_file is None:
            return list(self._lengths)
        file = lengths_file(self.copies_file)
        lines = file.read_text().splitlines() if file.exists() else []
        rows = [line.split() for line in lines if line.count(" ") == 2]
        return [Length(float(at), int(n), int(copied)) for at, n, copied in rows]

    def copy(self, message_id: str, *, times: int) -> None:
        """Publish the task of a message so many times more."""
        if self._server is not None:
            self._copied += times
            with suppress(OSError, OperationalError):  # it may be dead just now
                self._broker.ring(message_id, times=times)

    def restart(self, rng: random.Random) -> str:
        """Kill it and start it again; say what became of what it held."""
        if self._server is None:
            return "nothing: it lives in the worker"
        loses = rng.random() < 0.5
        began = time.monotonic()
        self._server.kill()
        if loses:
            self._server.forget()
        self._server.start()
        took = time.monotonic() - began
        return f"{'with what it held' if loses else 'its disk kept'} ({took:.1f} s)"

    def _measure(self) -> None:
        while not self._closing.wait(MEASURED_EVERY):
            copied = self._copied
            with suppress(OSError, LookupError, OperationalError, RedisError):
                waiting = self._waiting()
                self._lengths.append(Length(time.monotonic(), waiting, copied))

    def _waiting(self) -> int:
        url = self._broker.url
        if self.scheme == "redis":
            with Redis.from_url(url, socket_timeout=2) as client:
                return int(client.llen(NAME))
        with Connection(url, connect_timeout=2) as connection:
            try:
                channel: Any = connection.default_channel
                said = channel.queue_declare(NAME, passive=True)
            except connection.channel_errors as error:
                raise LookupError(NAME) from error
            return int(said.message_count)


def lengths_file(copies_file: Path) -> Path:
    """Return the file that goes with that of the copies."""
    return copies_file.with_suffix(".lengths")
