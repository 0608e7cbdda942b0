"""The database of the run: embedded PostgreSQL with fsync, behind its own proxy."""

import os
import signal
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from pylota.embedded import Server, ensure
from pylota.embedded.layout import Layout
from pylota.embedded.processes import read_pid_file, wait_until_gone
from tests.support.pg_proxy import Fault, PgProxy, Rule

AROUND = {
    "submit": r"insert into .?idempotency",
    "claim": r"insert into .?attempts",
    "record": r"update .?attempts.? set finished_at",
}
"""Transactions by a statement that only they make."""


class Database:
    """The server and the proxy that all of Pylota reaches it through."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._servers: list[Server] = []
        self.rules: list[Rule] = []

    def __enter__(self) -> Self:
        self._servers.append(ensure(self._folder))
        self.proxy = PgProxy(self.direct_url)
        self.proxy.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.proxy.forget_rules()
        self.proxy.__exit__(kind, error, trace)
        for server in self._servers:
            server.stop()

    @property
    def direct_url(self) -> str:
        """Return the way past the proxy."""
        return self._servers[-1].url

    def cut(self, which: str, fault: Fault) -> None:
        """Let the next COMMIT of one kind, or its answer, get lost."""
        self.rules.append(self.proxy.at_commit(fault, marker=AROUND[which]))

    def restart(self) -> float:
        """Shut it down at once, start it again; return how many seconds that took.

        Nothing is written out and no client is told: recovery is from the log.
        """
        began = time.monotonic()
        layout = Layout.of(self._folder, name="pylota", fast=False)
        running = read_pid_file(layout.data)
        if running is None:
            raise RuntimeError("the database is not running")
        os.kill(running.pid, signal.SIGQUIT)
        if not wait_until_gone([running.pid], seconds=20):
            raise RuntimeError("the database did not end")
        self._servers.append(ensure(self._folder))
        return time.monotonic() - began
