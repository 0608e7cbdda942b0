"""The broker of the run: RabbitMQ or Redis behind a proxy, or the worker's own.

As its clients see it, a restart is: no connection is accepted, all that stand are cut,
half the time nothing of what it held is left, and then it is there again.
"""

import os
import random
import socket
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.support.brokers import Broker
from tests.support.tcp_proxy import TcpProxy

VARIABLES: Final = {"amqp": "PM_TEST_AMQP_URL", "redis": "PM_TEST_REDIS_URL"}
AWAY_SECONDS: Final = 3.0


class NoBroker(Exception):
    """The broker that was asked for does not answer."""


def found(wanted: str | None) -> "Queue":
    """Return the broker to use: the one that is wanted, else one that answers.

    ``memory`` needs none. Raises NoBroker.
    """
    if wanted == "memory":
        return Queue(None)
    for scheme, variable in VARIABLES.items():
        url = os.environ.get(variable)
        if url and wanted in (None, scheme) and _answers(Broker(url)):
            return Queue(Broker(url))
    if wanted is None:
        return Queue(None)
    raise NoBroker(f"{VARIABLES[wanted]} names no broker that answers")


def _answers(broker: Broker) -> bool:
    try:
        socket.create_connection(broker.address, timeout=2).close()
    except OSError:
        return False
    return True


class Queue:
    """A broker as the run uses it.

    ``copies_file`` is where a worker with a broker of its own writes what it copied.
    """

    def __init__(self, broker: Broker | None) -> None:
        self._broker = broker
        self._copied = 0
        self.copies_file: Path | None = None

    def __enter__(self) -> Self:
        if self._broker is not None:
            self._broker.empty()
            self._proxy = TcpProxy(self._broker.address)
            self._proxy.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._broker is not None:
            self._proxy.__exit__(kind, error, trace)
            self._broker.empty()

    @property
    def scheme(self) -> str:
        """Return ``amqp``, ``redis`` or ``memory``."""
        return self._broker.scheme if self._broker else "memory"

    @property
    def copied(self) -> int:
        """Return how many copies of tasks it was given."""
        file = self.copies_file
        if file is None or not file.exists():
            return self._copied
        return len(file.read_text().splitlines())

    @property
    def url(self) -> str:
        """Return the way through the proxy."""
        if self._broker is None:
            return "memory://"
        return self._broker.through(self._proxy.port).url

    def copy(self, message_id: str, *, times: int) -> None:
        """Publish the task of a message so many times more, past the proxy."""
        if self._broker is not None:
            self._broker.ring(message_id, times=times)
            self._copied += times

    def restart(self, rng: random.Random) -> str:
        """Take it away for a while; say what became of what it held."""
        if self._broker is None:
            return "nothing: it lives in the worker"
        loses = rng.random() < 0.5
        self._proxy.refuse()
        self._proxy.cut(reset=True)
        if loses:
            self._broker.empty()
        time.sleep(AWAY_SECONDS)
        self._proxy.admit()
        return "with what it held" if loses else "its messages kept"
