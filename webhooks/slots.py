"""Who may be called now: so many calls per process, and per endpoint.

Each call holds a thread of the worker until its receiver has answered, for 15 s at
most. So that a slow or dead receiver delays neither another nor the mail:

- all calls together hold at most half of the worker's threads;
- one endpoint holds at most a quarter of the slots;
- endpoints that have not answered quickly of late, new ones among them, share half of
  the slots. Those that have always find the other half.

What finds no slot waits here in memory, by endpoint, its row rung; who frees a slot
goes on with the endpoint that holds fewest, then with the one that waits longest.
"""

import os
import threading
from collections import Counter, OrderedDict
from functools import cache
from typing import Final

from django.conf import settings

QUICK_SECONDS: Final = 2.0
"""Who answered within this time the last time counts as quick."""

MOST_QUICK: Final = 10_000
"""Endpoints that are remembered as quick."""


class NoMoreCalls(Exception):
    """This process is ending: the row is for another one."""


class Slots:
    """A number of slots, shared by the threads of one process."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.half = max(1, size // 2)
        self.of_one = max(1, size // 4)
        self._lock = threading.Lock()
        self._held: Counter[str] = Counter()
        self._quick: OrderedDict[str, None] = OrderedDict()
        self._waiting: OrderedDict[str, OrderedDict[str, None]] = OrderedDict()
        self._is_closed = False

    def enter(self, endpoint: str, dispatch: str) -> str | None:
        """Take a slot and return the row to go on with; None: it waits now.

        That is another row of this endpoint if one waits already. Raises NoMoreCalls.
        """
        with self._lock:
            if self._is_closed:
                raise NoMoreCalls
            self._waiting.setdefault(endpoint, OrderedDict())[dispatch] = None
            return self._grant(endpoint) if self._may_have(endpoint) else None

    def leave(self, endpoint: str, *, seconds: float) -> None:
        """Give a slot back after a call that took so long."""
        with self._lock:
            self._held[endpoint] -= 1
            if not self._held[endpoint]:
                del self._held[endpoint]
            self._quick.pop(endpoint, None)
            if seconds < QUICK_SECONDS:
                self._quick[endpoint] = None
                if len(self._quick) > MOST_QUICK:
                    self._quick.popitem(last=False)

    def next(self) -> tuple[str, str] | None:
        """Take a slot for what waits: its endpoint and row, or None."""
        with self._lock:
            fit = [one for one in self._waiting if self._may_have(one)]
            if not fit:
                return None
            endpoint = min(fit, key=lambda one: self._held[one])
            return endpoint, self._grant(endpoint)

    def empty(self) -> list[str]:
        """Return all rows that wait, and let none of them wait any more."""
        with self._lock:
            found = [row for rows in self._waiting.values() for row in rows]
            self._waiting.clear()
            return found

    def close(self) -> list[str]:
        """Grant nothing more (SIGTERM); return the rows that wait."""
        with self._lock:
            self._is_closed = True
        return self.empty()

    @property
    def held(self) -> int:
        """Return the number of slots held now."""
        return self._held.total()

    @property
    def waiting(self) -> int:
        """Return the number of rows that wait now."""
        return sum(len(rows) for rows in self._waiting.values())

    # --- under the lock --------------------------------------------------------------

    def _may_have(self, endpoint: str) -> bool:
        if self._is_closed or self.held >= self.size:
            return False
        if self._held[endpoint] >= self.of_one:
            return False
        return endpoint in self._quick or self._held_by_others_than_quick() < self.half

    def _grant(self, endpoint: str) -> str:
        rows = self._waiting.pop(endpoint)
        dispatch, _ = rows.popitem(last=False)
        if rows:
            self._waiting[endpoint] = rows  # behind the others
        self._held[endpoint] += 1
        return dispatch

    def _held_by_others_than_quick(self) -> int:
        return sum(n for one, n in self._held.items() if one not in self._quick)


@cache
def process_slots() -> Slots:
    """Return the slots of this process, as the settings size them."""
    most = max(1, settings.PM_WORKER_THREADS // 2)
    return Slots(min(settings.PM_WEBHOOK_PARALLEL, most))


os.register_at_fork(after_in_child=process_slots.cache_clear)
