"""The embedded PostgreSQL as its users see it: ``ensure``, and leave."""

import os
import subprocess
import time
from pathlib import Path
from urllib.parse import quote

from pylota.embedded import cluster, endings, locks, processes
from pylota.embedded.errors import EmbeddedFailed
from pylota.embedded.layout import Layout
from pylota.embedded.running import START_SECONDS, Report, end, shut_down
from pylota.embedded.starting import obtain


class Server:
    """A running server that this process uses until ``stop``."""

    def __init__(
        self,
        layout: Layout,
        *,
        users: int,
        process: "subprocess.Popen[bytes] | None",
        seconds: float,
    ) -> None:
        """Take over the shared lock ``users``; made by ``ensure`` only."""
        pid_file = processes.read_pid_file(layout.data)
        if pid_file is None:
            raise EmbeddedFailed(
                f"PostgreSQL on {layout.data} ended. Read {layout.log}."
            )
        self.base = layout.base
        self.socket_folder = pid_file.socket_folder
        self.version = layout.server_lock.read_text().strip()
        self.was_running = process is None
        self.seconds = seconds
        self._layout = layout
        self._users: int | None = users
        self._process = process
        self._owner = os.getpid()

    @property
    def url(self) -> str:
        """Return the DATABASE_URL: the socket's folder, percent-encoded, as host."""
        host = quote(os.fsencode(self.socket_folder), safe="")
        return f"postgres://{cluster.DATABASE}@{host}:5432/{cluster.DATABASE}"

    def stop(self) -> bool:
        """Leave the server, and stop it when no other process uses it.

        Returns whether it was stopped. Does nothing in a forked child, or twice.
        """
        if self._users is None or self._owner != os.getpid():
            return False
        with endings.stopping():
            users, self._users = self._users, None
            endings.forget(self)
            return self._leave(users)

    def _leave(self, users: int) -> bool:
        try:
            if not self.base.exists():
                end(processes.processes_in(self._layout.data, self._layout.account))
                return True
            if not locks.stands(users, self._layout.users_lock):
                return False  # the folder was deleted and made anew by others
            with locks.held(
                self._layout.start_lock, seconds=START_SECONDS, waiting=lambda: None
            ):
                if not locks.try_lock(users):
                    return False
                shut_down(self._layout)
                return True
        finally:
            locks.release(users)
            self._reap()

    def _reap(self) -> None:
        if self._process is not None and self._process.poll() is None:
            if locks.is_free(self._layout.server_lock):
                self._process.wait()
            else:
                # others still use it: it outlives us, which is no leak to warn about
                self._process.returncode = 0


def ensure(
    data_dir: Path,
    *,
    name: str = "pylota",
    report: Report | None = None,
    fast: bool = False,
) -> Server:
    """Start the embedded server of a data folder, or join the one that runs there.

    ``fast`` is for throw-away tests: a cluster of its own, without fsync. The server
    stops when its last user leaves (``Server.stop``, the end of the process, SIGTERM).
    Raises ``EmbeddedFailed``: one line that ends with the next step.
    """
    try:
        with endings.interruptible():
            layout = Layout.of(data_dir, name=name, fast=fast)
            server = _started_or_joined(layout, report or (lambda _line: None))
    except OSError as error:
        raise EmbeddedFailed(
            f"{error.filename or data_dir}: {error.strerror or error}."
            " Correct that, or set another PM_DATA_DIR."
        ) from error
    endings.watch(server)
    return server


def _started_or_joined(layout: Layout, report: Report) -> Server:
    began = time.monotonic()
    layout.prepare()
    with locks.held(
        layout.start_lock,
        seconds=START_SECONDS,
        waiting=lambda: report("waiting for another start of PostgreSQL"),
    ) as start_lock:
        process = obtain(layout, start_lock, report)
        users = locks.share(layout.users_lock)
    seconds = time.monotonic() - began
    return Server(layout, users=users, process=process, seconds=seconds)
