"""RabbitMQ and Redis as the run starts them: own port, own folder, killed for good.

Neither is asked of anybody: a server is used when its program is on this machine. What
a broker keeps on its disk outlives its SIGKILL, as it would in a deployment.
"""

import os
import shutil
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from redis import Redis
from redis.exceptions import RedisError

from pylota.deployment import free_port

START_SECONDS: Final = 60.0
RABBITMQ: Final = ("/usr/lib/rabbitmq/bin/rabbitmq-server", "rabbitmq-server")
"""The program itself, for Debian's wrapper on the PATH is for its one service."""


class Server(ABC):
    """A broker's process; each start is on the same port and over the same folder."""

    scheme: str

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._log = folder.parent / "log" / f"{self.scheme}.log"
        self.port = free_port("127.0.0.1", 0)
        self._running: list[subprocess.Popen[bytes]] = []

    @property
    @abstractmethod
    def url(self) -> str:
        """Return where it listens."""

    @staticmethod
    @abstractmethod
    def program() -> str | None:
        """Return what starts it here, if anything does."""

    def start(self) -> None:
        """Start it and wait until it serves; raises RuntimeError when it never does."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._launch()
        deadline = time.monotonic() + START_SECONDS
        while not self._serves():
            if time.monotonic() > deadline or self._running[-1].poll() is not None:
                raise RuntimeError(f"no {self.scheme} broker came up; see {self._log}")
            time.sleep(0.1)

    def kill(self) -> None:
        """SIGKILL it, with all that it has started."""
        while self._running:
            process = self._running.pop()
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(timeout=20)
        while self._serves():  # what the leader had started is not gone as soon
            time.sleep(0.02)

    def forget(self) -> None:
        """Remove all that it has written, once it is dead."""
        shutil.rmtree(self._folder)

    @abstractmethod
    def _launch(self) -> None: ...

    @abstractmethod
    def _serves(self) -> bool: ...

    def _run(self, *command: str, more: Mapping[str, str] | None = None) -> None:
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("ab") as output:
            process = subprocess.Popen(
                command,
                env={**os.environ, **(more or {})},
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._running.append(process)


class RedisServer(Server):
    """Redis that appends every change to its log, and syncs it each second."""

    scheme = "redis"

    @staticmethod
    def program() -> str | None:
        return shutil.which("redis-server")

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def _launch(self) -> None:
        self._run(
            *(self.program() or "", "--bind", "127.0.0.1", "--port", str(self.port)),
            *("--dir", str(self._folder), "--appendonly", "yes", "--save", ""),
        )

    def _serves(self) -> bool:
        with Redis.from_url(self.url) as client, suppress(RedisError):
            return bool(client.ping())
        return False


class RabbitServer(Server):
    """A RabbitMQ node that nobody else knows, with a port mapper of its own."""

    scheme = "amqp"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._mapper, self._distribution = (free_port("127.0.0.1", 0) for _ in "12")

    @staticmethod
    def program() -> str | None:
        if shutil.which("epmd") is None:  # it comes with Erlang
            return None
        return next(filter(None, map(shutil.which, RABBITMQ)), None)

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self.port}//"

    def _launch(self) -> None:
        config = self._folder / "rabbitmq.conf"
        config.write_text(f"listeners.tcp.1 = 127.0.0.1:{self.port}\n")
        settings = {
            "HOME": str(self._folder),  # its cookie is its own
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(self._mapper),
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_CONFIG_FILE": str(config),
            "RABBITMQ_DIST_PORT": str(self._distribution),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self._folder / "plugins"),
            "RABBITMQ_LOG_BASE": str(self._log.parent),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_MNESIA_BASE": str(self._folder / "mnesia"),
            "RABBITMQ_NODENAME": f"pylota-chaos-{self.port}@localhost",
            "RABBITMQ_PID_FILE": str(self._folder / "pid"),
        }
        self._run("epmd", more=settings)
        self._run(self.program() or "", more=settings)

    def _serves(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


SERVERS: Final[tuple[type[Server], ...]] = (RabbitServer, RedisServer)
