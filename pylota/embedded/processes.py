"""Which process is the server: asked of its pid file and of the kernel.

A pid alone proves nothing (it is reused, it may belong to another container), so a
process counts as the server only while its working folder is the data folder.
"""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pylota.embedded.accounts import Account, as_account
from pylota.embedded.locks import POLL_SECONDS

_PROC = Path("/proc")
_DELETED = " (deleted)"


@dataclass(frozen=True, slots=True)
class PidFile:
    """What a server writes about itself (``postmaster.pid``)."""

    pid: int
    socket_folder: Path
    status: str


def read_pid_file(data: Path) -> PidFile | None:
    """Return what the server last wrote; nothing while it is absent or half written."""
    try:
        handle = os.open(data / "postmaster.pid", os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return None
    with os.fdopen(handle, "rb") as file:
        text = os.fsdecode(file.read(8192))
    lines = text.split("\n")
    if len(lines) < 8 or not lines[0].strip().isdecimal():
        return None
    return PidFile(int(lines[0]), Path(lines[4]), lines[7].strip())


def is_server(pid: int, data: Path, account: Account) -> bool:
    """Say whether the process works in this data folder."""
    return as_account(account, lambda: _folder_if_working(pid, data)) != ""


def processes_in(data: Path, account: Account) -> list[int]:
    """Return the server processes at work in the data folder, deleted or not.

    Empty where there is no ``/proc`` (macOS).
    """

    def look() -> str:
        return " ".join(str(pid) for pid in _pids() if _works_in(pid, data))

    return [int(pid) for pid in as_account(account, look).split()]


def wait_until_gone(pids: list[int], *, seconds: float) -> bool:
    """Wait for processes to end; say whether they did in time."""
    deadline = time.monotonic() + seconds
    while any(_lives(pid) for pid in pids):
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


def send(pid: int, signum: int) -> None:
    """Signal a process that may be gone."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signum)


def _pids() -> Iterator[int]:
    try:
        names = os.listdir(_PROC)
    except OSError:
        return
    yield from (int(name) for name in names if name.isdecimal())


def _lives(pid: int) -> bool:
    try:
        status = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] not in ("Z", "X")


def _folder_if_working(pid: int, data: Path) -> str:
    if sys.platform == "darwin":
        return _ps(pid, data)
    try:
        folder = os.readlink(_PROC / str(pid) / "cwd")
    except OSError:
        return ""
    return folder if folder == str(data) else ""


def _works_in(pid: int, data: Path) -> bool:
    try:
        folder = os.readlink(_PROC / str(pid) / "cwd")
        program = os.readlink(_PROC / str(pid) / "exe")
    except OSError:
        return False
    name = Path(program.removesuffix(_DELETED)).name
    return folder.removesuffix(_DELETED) == str(data) and name == "postgres"


def _ps(pid: int, data: Path) -> str:
    """Ask ``ps``: macOS has no ``/proc``, but the command line names the folder."""
    answer = subprocess.run(
        ["/bin/ps", "-p", str(pid), "-o", "command="],
        capture_output=True,
        text=True,
        check=False,
    )
    return str(data) if f"-D {data} " in answer.stdout else ""
