"""What the race tests share."""

from collections.abc import Iterator

import pytest

from tests.support.processes import processes
from tests.support.racers import Racers
from tests.support.web import Sender

__all__ = ["processes", "racers"]


@pytest.fixture
def racers(transactional_db: None) -> Iterator[Racers]:
    """Eight threads that start together."""
    threads = Racers(8)
    yield threads
    threads.close()


@pytest.fixture
def sender(transactional_db: None) -> Iterator[Sender]:
    """A client of the API over HTTP."""
    made = Sender.new()
    yield made
    made.close()
