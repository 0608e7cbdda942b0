"""Slots for relay sockets: so many per process, taken before the claim.

Waiting for a slot must not eat the claim's time, and one dead relay must not stop every
tenant's mail (architecture section 4):

- at most a quarter of the worker's threads wait, one domain in at most half of these
  places; everybody else gives the row back;
- the last free slot never goes to a domain that already holds half of them. So the mail
  of another domain finds a slot even when the calls of the first one all hang, and
  while others wait, a domain gets no more than half;
- the last place to wait is kept for a domain that holds no slot, and who holds fewest
  is served first. So when two dead relays hold all slots, a third domain gets the first
  that comes free, however many of theirs wait.
"""

import os
import threading
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from types import TracebackType
from typing import Self

from django.conf import settings

GIVE_BACK_SECONDS = 5.0
"""After how long a row that found no slot is due again."""
PATIENCE_SECONDS = 60.0
"""How long a task waits for a slot; then it gives its row back as well."""


@dataclass(eq=False, slots=True)
class Slot:
    """The right to hold one relay socket; a context manager that gives it back."""

    domain: str
    _owner: "Slots"
    _is_held: bool = True

    def release(self) -> None:
        """Give the slot to whoever waits; a second call changes nothing."""
        self._owner._release(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


@dataclass(eq=False, slots=True)
class _Waiter:
    domain: str
    answered: threading.Event = field(default_factory=threading.Event)
    slot: Slot | None = None


class Slots:
    """A number of slots shared by the threads of one process."""

    def __init__(
        self, size: int, *, places: int, patience_seconds: float = PATIENCE_SECONDS
    ) -> None:
        self.size = size
        self.half = max(1, size // 2)
        self.places = max(1, places)
        self.places_of_one = max(1, self.places // 2)
        self._patience = patience_seconds
        self._lock = threading.Lock()
        self._held: Counter[str] = Counter()
        self._waiting: list[_Waiter] = []
        self._is_closed = False

    def take(self, domain: str) -> Slot | None:
        """Return a slot, now or after a wait; None: give the row back."""
        with self._lock:
            if self._is_closed:
                return None
            if self._may_have(domain):
                return self._grant(domain)
            if not self._may_wait(domain):
                return None
            waiter = _Waiter(domain)
            self._waiting.append(waiter)
        waiter.answered.wait(self._patience)
        with self._lock:
            if not waiter.answered.is_set():
                self._waiting.remove(waiter)
            return waiter.slot

    def close(self) -> None:
        """Grant nothing more and send everyone who waits away (SIGTERM)."""
        with self._lock:
            self._is_closed = True
            for waiter in self._waiting:
                waiter.answered.set()
            self._waiting.clear()

    @property
    def held(self) -> int:
        """Return the number of slots held now."""
        return self._held.total()

    @property
    def waiting(self) -> int:
        """Return the number of threads that wait now."""
        return len(self._waiting)

    # --- under the lock --------------------------------------------------------------

    def _may_have(self, domain: str) -> bool:
        # where two are free nobody below the half waits: they would have been served
        free = self.size - self._held.total()
        return free > 1 or (free == 1 and self._held[domain] < self.half)

    def _may_wait(self, domain: str) -> bool:
        free = self.places - len(self._waiting)
        of_one = sum(waiter.domain == domain for waiter in self._waiting)
        if not self._held[domain] and not of_one:
            return free > 0
        return free > 1 and of_one < self.places_of_one

    def _grant(self, domain: str) -> Slot:
        self._held[domain] += 1
        return Slot(domain, self)

    def _release(self, slot: Slot) -> None:
        with self._lock:
            if not slot._is_held:
                return
            slot._is_held = False
            self._held[slot.domain] -= 1
            if not self._held[slot.domain]:
                del self._held[slot.domain]
            self._serve()

    def _serve(self) -> None:
        """Grant what is free: to who holds fewest, then to who came first."""
        while (waiter := self._next()) is not None:
            self._waiting.remove(waiter)
            waiter.slot = self._grant(waiter.domain)
            waiter.answered.set()

    def _next(self) -> _Waiter | None:
        fit = (w for w in self._waiting if self._may_have(w.domain))
        return min(fit, key=lambda waiter: self._held[waiter.domain], default=None)


@cache
def process_slots() -> Slots:
    """Return the slots of this process, as the settings size them."""
    places = settings.PM_WORKER_THREADS // 4
    return Slots(settings.PM_SMTP_PARALLEL, places=places)


def take(domain: str) -> Slot | None:
    """Take one of this process's slots before the claim; None: give the row back."""
    return process_slots().take(domain)


os.register_at_fork(after_in_child=process_slots.cache_clear)
