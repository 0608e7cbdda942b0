"""Tests against RabbitMQ and Redis; ``make test-brokers`` runs them."""

from collections.abc import Iterator

import pytest

from tests.support.brokers import URLS, Broker
from tests.support.processes import processes
from tests.support.queued import relay_answering
from tests.support.smtp_server import SmtpServer

__all__ = ["processes"]


@pytest.fixture(params=["amqp", "redis"])
def broker(request: pytest.FixtureRequest) -> Broker:
    """Each of the two brokers, empty."""
    return emptied(request.param)


@pytest.fixture
def rabbitmq() -> Broker:
    """RabbitMQ, empty."""
    return emptied("amqp")


@pytest.fixture
def redis() -> Broker:
    """Redis, empty."""
    return emptied("redis")


def emptied(scheme: str) -> Broker:
    found = Broker(URLS[scheme])
    found.empty()
    return found


@pytest.fixture
def relay() -> Iterator[SmtpServer]:
    """A relay that takes everything."""
    with relay_answering() as found:
        yield found
