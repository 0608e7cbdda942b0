"""The feed of events: oldest first, resumed after the last one that was seen."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pylota_client.calls import Call, Calls
from pylota_client.errors import CursorExpired
from pylota_client.messages import Json
from pylota_client.results import Event


@dataclass(frozen=True, slots=True)
class _Page:
    events: tuple[Event, ...]
    next_cursor: str | None

    @classmethod
    def read(cls, raw: Json) -> "_Page":
        events = tuple(Event.read(each) for each in raw["data"])
        return cls(events, raw.get("next_cursor"))


class Feed:
    """Reads the events that fit some filters."""

    def __init__(self, calls: Calls, filters: Mapping[str, str]) -> None:
        self._calls = calls
        self._filters = filters

    def read(self, after_id: str | None) -> Iterator[Event]:
        """Yield the events after one, to the end of what there is.

        A cursor belongs to one read and lives for a day; when it has ended, a new read
        starts after the last event that was yielded.
        """
        start, cursor = after_id, None
        last = after_id
        while True:
            try:
                page = self._page(start, cursor)
            except CursorExpired:
                if cursor is None:
                    raise
                start, cursor = last, None
                continue
            for event in page.events:
                last = event.id
                yield event
            cursor = page.next_cursor
            if cursor is None:
                return

    def follow(self, after_id: str | None, *, every: float) -> Iterator[Event]:
        """Yield the events after one, and for ever those that come."""
        while True:
            for event in self.read(after_id):
                after_id = event.id
                yield event
            self._calls.clock.sleep(every)

    def _page(self, after_id: str | None, cursor: str | None) -> _Page:
        given = {"after_id": after_id, "cursor": cursor}
        named = {name: value for name, value in given.items() if value is not None}
        params = {**self._filters, **named}
        return self._calls.make(Call("GET", "/v1/events", params=params), _Page.read)
