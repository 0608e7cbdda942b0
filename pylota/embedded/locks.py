"""Three advisory file locks (flock): the kernel drops them with their last holder.

``start.lock`` is held around a start and a stop. ``server.lock`` is inherited by the
server: held means that one of its processes lives. ``users.lock`` is shared by the
processes that use the server.
"""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pylota.embedded.errors import EmbeddedFailed

POLL_SECONDS = 0.01


def open_lock(path: Path) -> int:
    """Open a lock file without following a link, close-on-exec."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(path, flags, 0o600)


def share(path: Path) -> int:
    """Return a descriptor that holds the lock together with others.

    Raises ``EmbeddedFailed`` if somebody holds it alone, which no start or stop does.
    """
    handle = open_lock(path)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise EmbeddedFailed(
            f"Another process holds {path} alone. End it, then try again."
        ) from None
    return handle


def stands(handle: int, path: Path) -> bool:
    """Say whether the open file is still the one at its path."""
    try:
        return os.path.samestat(os.fstat(handle), path.lstat())
    except (FileNotFoundError, NotADirectoryError):
        return False


def try_lock(handle: int) -> bool:
    """Take the lock exclusively if nobody is in the way; never wait.

    A shared lock of the same descriptor is given up either way.
    """
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def take(path: Path) -> int | None:
    """Return a descriptor that holds the lock exclusively, or nothing."""
    handle = open_lock(path)
    if try_lock(handle):
        return handle
    os.close(handle)
    return None


def is_free(path: Path) -> bool:
    """Say whether nobody holds the lock at this moment."""
    if (handle := take(path)) is None:
        return False
    os.close(handle)
    return True


def release(handle: int) -> None:
    """Give the lock back, also for forked children that still have the descriptor."""
    fcntl.flock(handle, fcntl.LOCK_UN)
    os.close(handle)


@contextmanager
def held(path: Path, *, seconds: float, waiting: Callable[[], None]) -> Iterator[int]:
    """Hold the lock exclusively; ``waiting`` is called once if another has it.

    Raises ``EmbeddedFailed`` when it is not free within ``seconds``.
    """
    deadline = time.monotonic() + seconds
    told = False
    while (handle := _take_current(path)) is None:
        if time.monotonic() > deadline:
            raise EmbeddedFailed(
                f"Another start or stop has held {path} for {seconds:.0f} s."
                " End that process, then try again."
            )
        if not told:
            waiting()
            told = True
        time.sleep(POLL_SECONDS)
    try:
        yield handle
    finally:
        # closed, not unlocked: an initdb that outlives us keeps it held
        os.close(handle)


def _take_current(path: Path) -> int | None:
    """Take the lock of the file that stands there now, not of a deleted one."""
    handle = take(path)
    if handle is None:
        return None
    if stands(handle, path):
        return handle
    os.close(handle)
    return None
