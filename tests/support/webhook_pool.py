"""A worker's part in webhooks, in this process: a dispatcher and a pool of threads."""

import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from types import TracebackType
from typing import Self

from django.db import connections

from outbound import dispatch
from tests.support.waiting import until
from webhooks.deliver import deliver

LOOK_SECONDS = 0.05


class WebhookPool:
    """Rings what is due and delivers it; a context manager."""

    def __init__(self, threads: int = 16) -> None:
        self._rings: SimpleQueue[str | None] = SimpleQueue()
        self._stopping = threading.Event()
        self._pool = [threading.Thread(target=self._deliver) for _ in range(threads)]
        self._dispatcher = threading.Thread(target=self._dispatch)

    def __enter__(self) -> Self:
        for thread in (*self._pool, self._dispatcher):
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopping.set()
        self._dispatcher.join(timeout=10)
        for _ in self._pool:
            self._rings.put(None)
        for thread in self._pool:
            thread.join(timeout=30)

    def run_until(self, true: Callable[[], object], *, seconds: float = 20) -> None:
        """Go on until it is true."""
        until(true, seconds=seconds)

    def _dispatch(self) -> None:
        while not self._stopping.is_set():
            batch = dispatch.take_due(dispatch.WEBHOOKS)
            for one in batch.ids:
                self._rings.put(one)
            if not batch.ids:
                time.sleep(LOOK_SECONDS)
        connections.close_all()

    def _deliver(self) -> None:
        while (ring := self._rings.get()) is not None:
            deliver(ring)
        connections.close_all()
