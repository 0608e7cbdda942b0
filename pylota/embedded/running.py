"""The server that runs already: join it, end what is left of it, shut it down."""

import signal
import time
from collections.abc import Callable

from pylota.embedded import locks, processes
from pylota.embedded.errors import EmbeddedFailed
from pylota.embedded.layout import SOCKET_NAME, Layout

START_SECONDS = 120.0  # a crash recovery may be long
LEFTOVER_SECONDS = 3.0
STOP_SECONDS = 4.0
_END_SECONDS = 5.0

Report = Callable[[str], None]


def join(layout: Layout, report: Report) -> int | None:
    """Wait until the running server is ready; or return its lock when it ended."""
    began = time.monotonic()
    killed = told = False
    while (lock := locks.take(layout.server_lock)) is None:
        waited = time.monotonic() - began
        pid_file = processes.read_pid_file(layout.data)
        if pid_file and _is_ours(pid_file, layout):
            if pid_file.status == "ready" and _has_socket(pid_file):
                return None
            if waited > START_SECONDS:
                raise EmbeddedFailed(
                    f"PostgreSQL on {layout.data} is still {pid_file.status} after"
                    f" {waited:.0f} s. Read {layout.log}, then try again."
                )
        elif not killed and (waited > LEFTOVER_SECONDS or not layout.data.exists()):
            _end_leftovers(layout)
            killed = True
        if waited > 1 and not told:
            report("waiting for PostgreSQL to become ready")
            told = True
        time.sleep(locks.POLL_SECONDS)
    return lock


def shut_down(layout: Layout) -> None:
    """Stop the server and wait for the last of its processes.

    SIGINT, not SIGTERM: that one waits for idle clients. A server that does not answer
    is killed: what is committed stands in its log.
    """
    for signum, seconds in ((signal.SIGINT, STOP_SECONDS), (signal.SIGQUIT, 1.0)):
        pid_file = processes.read_pid_file(layout.data)
        if pid_file and _is_ours(pid_file, layout):
            processes.send(pid_file.pid, signum)
        if _is_over(layout, seconds=seconds):
            return
    end(processes.processes_in(layout.data, layout.account))
    if not _is_over(layout, seconds=_END_SECONDS):
        raise EmbeddedFailed(
            f"PostgreSQL on {layout.data} does not stop. Read {layout.log}."
        )


def _is_over(layout: Layout, *, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not locks.is_free(layout.server_lock):
        if time.monotonic() > deadline:
            return False
        time.sleep(locks.POLL_SECONDS)
    return True


def end(pids: list[int]) -> None:
    """Immediate shutdown, then SIGKILL; for servers with nothing left to save."""
    for signum, seconds in ((signal.SIGQUIT, 1.0), (signal.SIGKILL, _END_SECONDS)):
        for pid in pids:
            processes.send(pid, signum)
        if processes.wait_until_gone(pids, seconds=seconds):
            return


def _is_ours(pid_file: processes.PidFile, layout: Layout) -> bool:
    return processes.is_server(pid_file.pid, layout.data, layout.account)


def _has_socket(pid_file: processes.PidFile) -> bool:
    if (pid_file.socket_folder / SOCKET_NAME).exists():
        return True
    # a cleaner of temporary files took it: only a restart brings it back
    processes.send(pid_file.pid, signal.SIGINT)
    return False


def _end_leftovers(layout: Layout) -> None:
    """End what a killed server or a deleted data folder left.

    Raises ``EmbeddedFailed`` when the lock's holder is nowhere in sight.
    """
    pids = processes.processes_in(layout.data, layout.account)
    if not pids:
        raise EmbeddedFailed(
            f"A PostgreSQL that is not visible from here uses {layout.base} (another"
            " container?). Stop it there, or set another PM_DATA_DIR."
        )
    end(pids)
