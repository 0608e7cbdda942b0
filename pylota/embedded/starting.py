"""Start the server: whatever stands in its way is ended, removed or named."""

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from pylota.embedded import binaries, cluster, locks, processes
from pylota.embedded.errors import EmbeddedFailed
from pylota.embedded.layout import SOCKET_NAME, Layout
from pylota.embedded.running import START_SECONDS, Report, end, join

GIVE_UP_SECONDS = 10.0  # PostgreSQL kills what does not answer after 5
LOG_BYTES = 10 * 2**20


def obtain(
    layout: Layout, start_lock: int, report: Report
) -> "subprocess.Popen[bytes] | None":
    """Return the process that was started, or nothing when one was running."""
    server_lock = locks.take(layout.server_lock)
    if server_lock is None:
        server_lock = join(layout, report)
    if server_lock is None:
        return None
    try:
        return _start(layout, start_lock, server_lock, report)
    finally:
        # never unlocked: the server holds its own copy of the descriptor
        os.close(server_lock)


def _start(
    layout: Layout, start_lock: int, server_lock: int, report: Report
) -> "subprocess.Popen[bytes]":
    _clear_the_way(layout)
    program = binaries.installed()
    has_data = os.path.lexists(layout.data)
    if has_data:
        layout.make_own(layout.data)
        cluster.check_version(layout, program)
    if not layout.account.is_us:
        program = binaries.copied(program, layout.base)
        binaries.remove_other_copies(layout.base, keep=program)
    if not has_data:
        report("making the database folder (only the first time)")
        cluster.create(layout, program, lock=start_lock)
    cluster.write_access_rules(layout)
    folder = layout.socket_folder()
    _remove_stale_files(layout, folder)
    os.ftruncate(server_lock, 0)
    os.pwrite(server_lock, program.version.encode(), 0)
    return _spawn(layout, cluster.server_command(layout, program, folder), server_lock)


def _clear_the_way(layout: Layout) -> None:
    """End the server of a deleted data folder: its end would remove our socket."""
    pids = processes.processes_in(layout.data, layout.account)
    for pid in pids:
        if processes.is_server(pid, layout.data, layout.account):
            raise EmbeddedFailed(
                f"A PostgreSQL that was not started by {layout.name} uses {layout.data}"
                f" (pid {pid}). Stop it, then try again."
            )
    end(pids)


def _remove_stale_files(layout: Layout, socket_folder: Path) -> None:
    """Remove what a killed server left: either file blocks a start by its reused pid.

    Safe under the server's lock: no process of the old server lives.
    """
    socket = socket_folder / SOCKET_NAME
    socket_lock = socket.with_name(f"{SOCKET_NAME}.lock")
    for path in (layout.data / "postmaster.pid", socket, socket_lock):
        path.unlink(missing_ok=True)


def _spawn(
    layout: Layout, command: list[str], server_lock: int
) -> "subprocess.Popen[bytes]":
    log = layout.open_log()
    if os.fstat(log).st_size > LOG_BYTES:
        os.ftruncate(log, 0)
    mark = os.fstat(log).st_size
    try:
        process = subprocess.Popen(
            command,
            cwd="/",
            env=binaries.CLEAN_ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            pass_fds=(server_lock,),
            **layout.account.spawn_options(),
        )
    except OSError as error:
        raise EmbeddedFailed(
            f"{command[0]} cannot be run ({error.strerror})."
            " Set PM_DATA_DIR to a folder on a file system that allows programs."
        ) from error
    finally:
        os.close(log)
    try:
        _await_ready(layout, process, mark)
    except BaseException:
        process.send_signal(signal.SIGQUIT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(GIVE_UP_SECONDS)
        raise
    return process


def _await_ready(layout: Layout, process: "subprocess.Popen[bytes]", mark: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        pid_file = processes.read_pid_file(layout.data)
        if pid_file and pid_file.pid == process.pid and pid_file.status == "ready":
            return
        if process.poll() is not None:
            raise EmbeddedFailed(
                "PostgreSQL did not start:"
                f" {cluster.last_line(layout.log, since=mark)} Read {layout.log}."
            )
        if time.monotonic() > deadline:
            raise EmbeddedFailed(
                f"PostgreSQL was not ready after {START_SECONDS:.0f} s."
                f" Read {layout.log}, then try again."
            )
        time.sleep(locks.POLL_SECONDS)
