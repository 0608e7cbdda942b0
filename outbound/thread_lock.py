"""The lock of a thread: one message of a thread at a time is on its way.

A column written under the mailbox's row (the page, "Thread lock"; architecture section
3, step 7). Whoever finds it held goes back to the savepoint, so that it waits without a
row lock; the key's advisory lock stays, and answers 409 to the same key meanwhile.
"""

import json
import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from django.conf import settings

from core import clock
from core.database import fetch_one
from core.elapsed import elapsed_clock
from core.errors import ThreadNotFound
from core.points import reach
from outbound.answered import EXCHANGES, HEAD
from outbound.errors import ThreadBusy
from outbound.plan import Head

LEASE: Final = timedelta(seconds=120)
"""How long a thread stays locked from its submit, if nobody lets go of it."""
STEP_SECONDS: Final = 0.25
PATIENCE_SECONDS = 10.0
"""How long a request waits for a thread, from its first attempt."""
MOST_RETRY_AFTER: Final = 60

_TAKE: Final = f"""
UPDATE threads t
   SET lock_owner = %(owner)s,
       lock_until = clock_timestamp() + %(clock_offset)s + %(lease)s
 WHERE pk = %(thread)s
   AND (lock_owner IS NULL OR lock_owner = %(owner)s
        OR lock_until < clock_timestamp() + %(clock_offset)s)
RETURNING {HEAD}, {EXCHANGES}
"""  # noqa: S608  constants only


@dataclass(frozen=True, slots=True)
class Taken:
    """The thread is ours until the transaction ends; ``head`` is as it is now."""

    head: Head
    exchanges: int


@dataclass(frozen=True, slots=True)
class Busy:
    """Another message holds the thread for this many seconds more."""

    seconds_left: float


def take(thread_key: int, *, owner: str) -> Taken | Busy:
    """Lock a thread for a message if it is free, its lease is over, or it is ours.

    Joins the caller's transaction, which holds the mailbox row: what it reads is newer
    than every message that committed before. Raises ThreadNotFound.
    """
    parameters = {
        "thread": thread_key,
        "owner": owner,
        "lease": LEASE,
        "clock_offset": clock.offset,
    }
    row = fetch_one(_TAKE, parameters)
    if row is not None:
        return Taken(head=tuple(json.loads(row[0])), exchanges=row[1])
    held = fetch_one(
        "SELECT lock_until, clock_timestamp() FROM threads WHERE pk = %(thread)s",
        parameters,
    )
    if held is None:
        raise ThreadNotFound("No such thread.")
    return Busy(_seconds_between(held[1] + clock.offset, held[0]))


@dataclass(slots=True)
class Patience:
    """One request's wait for a thread: bounded in time, and in how many wait at all."""

    _began: float | None = None
    _waits: bool = field(default=False)

    def wait(self, busy: Busy) -> None:
        """Wait one step; raises ThreadBusy when it has been long enough, or too many.

        The caller stands at its savepoint and holds no row lock.
        """
        if self._began is None:
            self._began = elapsed_clock()
            self._waits = _waiters.enter()
        if not self._waits or elapsed_clock() - self._began >= PATIENCE_SECONDS:
            raise thread_busy(busy)
        reach("submit.thread_wait")
        time.sleep(STEP_SECONDS)

    def end(self) -> None:
        """Make room for another request that waits."""
        if self._waits:
            self._waits = False
            _waiters.leave()


@contextmanager
def patience() -> Iterator[Patience]:
    """Give a request its patience, and take back its place when it has ended."""
    own = Patience()
    try:
        yield own
    finally:
        own.end()


def thread_busy(busy: Busy) -> ThreadBusy:
    """Return the refusal, with a whole number of seconds from 1 to 60."""
    wait = max(1, min(MOST_RETRY_AFTER, math.ceil(busy.seconds_left)))
    return ThreadBusy("Another send holds the thread.", details={"retry_after": wait})


class _Waiters:
    """How many requests of this process wait for a thread."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._count = 0

    def enter(self) -> bool:
        """Take a place; False when all are taken."""
        with self._guard:
            if self._count >= most_waiters():
                return False
            self._count += 1
            return True

    def leave(self) -> None:
        """Give the place back."""
        with self._guard:
            self._count -= 1


_waiters = _Waiters()


def most_waiters() -> int:
    """Return how many may wait: half of the web's threads unless a number is set."""
    return int(settings.PM_LOCK_WAITERS) or max(1, int(settings.PM_WEB_THREADS) // 2)


def _seconds_between(now: datetime, until: datetime | None) -> float:
    return (until - now).total_seconds() if until is not None else 0.0
