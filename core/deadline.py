"""One absolute end for a call, kept by a thread that shuts the connection.

A library's time-out starts anew with each octet, so a peer that drips outlives it; and
Celery's time limits do nothing in a pool of threads (architecture section 4).
"""

import heapq
import itertools
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from core.elapsed import elapsed_clock

LONGEST_NAP = 1.0
"""Seconds: a wait stands still while the machine is suspended, a deadline does not."""


class Deadline:
    """The instant at which a call must have ended, ``seconds`` from now."""

    def __init__(self, seconds: float) -> None:
        self.at = elapsed_clock() + seconds

    def left(self) -> float:
        """Return the seconds until then; never negative."""
        return max(0.0, self.at - elapsed_clock())

    @property
    def has_passed(self) -> bool:
        """Say whether the call's time is over."""
        return self.left() == 0.0

    @contextmanager
    def kept_on(self, sock: socket.socket) -> Iterator[None]:
        """Shut this connection at the deadline, unless the block has ended before.

        The watchdog holds a duplicate of the socket: it may outlive a wrapping in TLS,
        and closing it can never hit a descriptor that somebody else has got meanwhile.
        """
        duplicate = sock.dup()
        try:
            ticket = _watchdog.watch(self.at, duplicate)
        except OSError:
            duplicate.close()
            raise
        try:
            yield
        finally:
            _watchdog.forget(ticket)


class Watchdog:
    """The thread that shuts what has run out; one per process, started when needed."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._numbers = itertools.count()
        self._ends: list[tuple[float, int]] = []
        self._sockets: dict[int, socket.socket] = {}
        self._thread: threading.Thread | None = None

    def watch(self, at: float, sock: socket.socket) -> int:
        """Shut and close ``sock`` at that instant; return a ticket to forget it by.

        Raises OSError when there is no thread that could do it.
        """
        with self._changed:
            if self._thread is None:
                self._start()
            ticket = next(self._numbers)
            self._sockets[ticket] = sock
            heapq.heappush(self._ends, (at, ticket))
            self._changed.notify()
        return ticket

    def _start(self) -> None:
        thread = threading.Thread(target=self._run, name="deadlines", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # none to be had; the next call tries again
            raise OSError("no thread to keep the deadline") from error
        self._thread = thread

    def forget(self, ticket: int) -> None:
        """Watch this socket no longer; close the watchdog's hold on it."""
        with self._changed:
            sock = self._sockets.pop(ticket, None)
        if sock is not None:
            sock.close()

    def __len__(self) -> int:
        """Return the number of connections watched now."""
        return len(self._sockets)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait(self._nap())
                for sock in self._overdue():
                    # shut, then closed: the other holder sees an end, not a bad handle
                    with suppress(OSError):
                        sock.shutdown(socket.SHUT_RDWR)
                    sock.close()

    def _nap(self) -> float | None:
        while self._ends and self._ends[0][1] not in self._sockets:
            heapq.heappop(self._ends)
        if not self._ends:
            return None
        return min(LONGEST_NAP, max(0.0, self._ends[0][0] - elapsed_clock()))

    def _overdue(self) -> Iterator[socket.socket]:
        now = elapsed_clock()
        while self._ends and self._ends[0][0] <= now:
            _, ticket = heapq.heappop(self._ends)
            if (sock := self._sockets.pop(ticket, None)) is not None:
                yield sock


_watchdog = Watchdog()


def _after_fork() -> None:
    global _watchdog
    _watchdog = Watchdog()  # threads do not survive a fork, locks may be held for ever


os.register_at_fork(after_in_child=_after_fork)
