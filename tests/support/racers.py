"""Threads that start together, again and again, on connections that they keep."""

from collections.abc import Callable, Sequence
from queue import SimpleQueue
from threading import Barrier, Thread

from django.db import connections

Action = Callable[[], object]
Job = tuple[Action, Barrier, list[object], int]

START_SECONDS, END_SECONDS = 60, 120
"""Patience with a busy machine; what a race promises of time its test says itself."""


class Racers:
    """A fixed set of threads; each round, they are released together."""

    def __init__(self, count: int = 8) -> None:
        """Start the threads."""
        self._queues: list[SimpleQueue[Job | None]] = [
            SimpleQueue() for _ in range(count)
        ]
        self._threads = [Thread(target=_race, args=(queue,)) for queue in self._queues]
        for thread in self._threads:
            thread.start()

    def at_once(self, actions: Sequence[Action]) -> list[object]:
        """Run one action a thread, together; return what each gave, in order.

        An exception is returned in its place.
        """
        results: list[object] = [None] * len(actions)
        barrier = Barrier(len(actions) + 1)  # the last party is the one who waits
        for n, action in enumerate(actions):
            self._queues[n].put((action, barrier, results, n))
        barrier.wait(timeout=START_SECONDS)  # all start
        barrier.wait(timeout=END_SECONDS)  # all have ended
        return results

    def close(self) -> None:
        """Let the threads close their connections and end."""
        for queue in self._queues:
            queue.put(None)
        for thread in self._threads:
            thread.join(timeout=30)


def _race(queue: SimpleQueue[Job | None]) -> None:
    while (job := queue.get()) is not None:
        action, barrier, results, n = job
        barrier.wait(timeout=START_SECONDS)
        try:
            results[n] = action()
        except Exception as error:
            results[n] = error
        barrier.wait(timeout=END_SECONDS)
    connections.close_all()
