"""Who follows the feed of events from its beginning, through all that happens."""

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

Get = Callable[..., dict[str, Any] | None]


class Reader:
    """Polls the feed; ``seen`` holds every event's id as often as it was shown."""

    def __init__(self, get: Get) -> None:
        self._get = get
        self.seen: list[str] = []
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="reader", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closing.set()
        self._thread.join(15)

    def read_to_the_end(self) -> None:
        """Read until a page is empty, or the feed fails."""
        while self._page():
            pass

    def _follow(self) -> None:
        while not self._closing.wait(0.5):
            self.read_to_the_end()

    def _page(self) -> bool:
        after = {"after_id": self.seen[-1]} if self.seen else {}
        page = self._get("/v1/events", limit=100, **after)
        ids = [event["id"] for event in page["data"]] if page else []
        self.seen += ids
        return bool(ids)
