"""Calls that nobody can interrupt, made so that nobody waits for ever."""

import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")

_Job = tuple[Future[Any], Callable[[], Any]]


class TooSlow(Exception):
    """The call took longer than the caller waits; it may still come to an end."""


class Impatient:
    """Runs calls on a bounded number of daemon threads, and leaves those that hang.

    A hung thread keeps its place until its call ends, so that threads never pile up:
    once all hang, callers are told so when their own patience ends. What was given up
    before it began is never run. Threads are made when needed, also after a fork.
    """

    def __init__(self, name: str, *, threads: int) -> None:
        """Take the name that its threads bear, and how many there may be."""
        self._name = name
        self._limit = threads
        self._reset()
        os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        self._changed = threading.Condition()
        self._jobs: deque[_Job] = deque()
        self._idle = 0
        self._started = 0

    def run(self, call: Callable[[], T], *, seconds: float) -> T:
        """Return what the call returns, or raise what it raises.

        Raises TooSlow after that many seconds, the wait for a free thread included.
        """
        job: tuple[Future[T], Callable[[], T]] = (Future(), call)
        self._submit(job)
        try:
            return job[0].result(timeout=seconds)
        except TimeoutError:
            if job[0].done():  # it ended at last, or with a time-out of its own
                return job[0].result()
            self._give_up(job)
            raise TooSlow(self._name) from None

    def _submit(self, job: _Job) -> None:
        with self._changed:
            self._jobs.append(job)
            if self._idle >= len(self._jobs) or self._started >= self._limit:
                self._changed.notify()
                return
            self._started += 1
            name = f"{self._name}-{self._started}"
        try:
            threading.Thread(target=self._work, name=name, daemon=True).start()
        except RuntimeError:  # the machine has none left; the place must not be lost
            with self._changed:
                self._started -= 1
            self._give_up(job)
            raise

    def _give_up(self, job: _Job) -> None:
        with self._changed:
            if job in self._jobs:
                self._jobs.remove(job)

    def _work(self) -> None:
        while True:
            _settle(*self._next())

    def _next(self) -> _Job:
        with self._changed:
            while not self._jobs:
                self._idle += 1
                self._changed.wait()
                self._idle -= 1
            return self._jobs.popleft()


def _settle(future: Future[T], call: Callable[[], T]) -> None:
    try:
        future.set_result(call())
    except BaseException as error:  # handed to the caller, whatever it is
        future.set_exception(error)
