"""A deployment that pulls a Cloudflare queue of the tests, and what it has stored."""

from collections.abc import Iterator

import pytest

from delivery import tasks
from delivery.models import ProviderEvent
from tests.support.cloudflare_queue import QueueServer, pulling, said


@pytest.fixture
def cloudflare() -> Iterator[QueueServer]:
    """All of Cloudflare, with nothing in its queue; the settings name it."""
    with QueueServer() as found, pulling(found):
        yield found


def pull() -> None:
    """Do what a worker does when beat asks for it."""
    tasks.pull_cloudflare_events()


def stored() -> list[str]:
    """Return the providers' ids of the events in the inbox, in their order."""
    found = ProviderEvent.objects.order_by("event_id")
    return list(found.values_list("event_id", flat=True))


def put(server: QueueServer, *names: str) -> list[str]:
    """Let events of these ids come into the queue; return the ids, in order."""
    for name in names:
        server.put(said("delivered", eventId=name))
    return sorted(names)
