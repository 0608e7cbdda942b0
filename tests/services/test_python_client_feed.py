"""The Python client reads a feed that follows the contract (section 5.3), over HTTP."""

from collections.abc import Iterable, Iterator
from itertools import islice

import pytest

from pylota_client import Client, Event
from tests.support.feed_server import FeedServer
from tests.support.python_client import FakeClock


@pytest.fixture
def feed() -> Iterator[FeedServer]:
    """A server with the feed of the contract."""
    with FeedServer() as feed:
        yield feed


@pytest.fixture
def reader(feed: FeedServer) -> Iterator[Client]:
    """A client of the feed."""
    with Client(feed.url, "pmk_live_x", clock=FakeClock()) as client:
        yield client


def numbers(events: Iterable[Event]) -> list[int]:
    return [event.data["n"] for event in events]


def test_events_come_oldest_first_over_all_pages(
    feed: FeedServer, reader: Client
) -> None:
    feed.add(8)

    assert numbers(reader.events()) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert [sorted(query) for query in feed.queries] == [
        *(["limit"], ["cursor", "limit"], ["cursor", "limit"])
    ]


def test_a_reader_resumes_after_the_last_event_that_it_saw(
    feed: FeedServer, reader: Client
) -> None:
    feed.add(5)
    seen = list(reader.events())
    feed.add(5)

    more = list(reader.events(after_id=seen[-1].id))

    assert numbers(more) == [6, 7, 8, 9, 10]
    # a cursor belongs to its filters: each page of the read names them again
    assert {query["after_id"] for query in feed.queries[2:]} == {seen[-1].id}


def test_events_are_filtered_on_every_page(feed: FeedServer, reader: Client) -> None:
    feed.add(4)
    feed.add(4, type="message.bounced")
    feed.add(1)

    found = list(reader.events(type="message.bounced"))

    assert numbers(found) == [5, 6, 7, 8]
    assert {event.type for event in found} == {"message.bounced"}


def test_a_cursor_that_expires_costs_no_event_and_repeats_none(
    feed: FeedServer, reader: Client
) -> None:
    feed.add(8)
    events = reader.events()
    first = list(islice(events, 3))
    feed.expire_cursors = True

    assert numbers([*first, *events]) == [1, 2, 3, 4, 5, 6, 7, 8]


def test_a_feed_that_fails_for_a_moment_loses_no_event(
    feed: FeedServer, reader: Client
) -> None:
    feed.add(5)
    events = reader.events()
    first = next(events)
    feed.faults = [502, 503]

    assert numbers([first, *events]) == [1, 2, 3, 4, 5]


def test_a_reader_that_follows_sees_what_happens_later(feed: FeedServer) -> None:
    class Meanwhile(FakeClock):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            feed.add(1)

    clock = Meanwhile()
    feed.add(4)
    with Client(feed.url, "pmk_live_x", clock=clock) as client:
        events = client.events(every=5.0)

        assert numbers(islice(events, 6)) == [1, 2, 3, 4, 5, 6]

    assert clock.slept == [5.0, 5.0]
    assert feed.queries[-1]["after_id"] == "evt_" + "5".zfill(26)
