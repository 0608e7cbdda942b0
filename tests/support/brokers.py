"""Real brokers for tests, at the URLs in the environment, emptied before each test.

``PM_TEST_AMQP_URL`` and ``PM_TEST_REDIS_URL`` must name a vhost and a database that
nothing else uses.
"""

import os
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from amqp.exceptions import NotFound
from celery import Celery
from kombu import Connection
from redis import Redis

from pylota.celery import queues, transport_options

URLS = {
    "amqp": os.environ.get("PM_TEST_AMQP_URL", "amqp://guest:guest@127.0.0.1:5672//"),
    "redis": os.environ.get("PM_TEST_REDIS_URL", "redis://127.0.0.1:6379/15"),
}


@dataclass(frozen=True, slots=True)
class Broker:
    """One broker, straight or through a proxy."""

    url: str

    @property
    def scheme(self) -> str:
        """Return ``amqp`` or ``redis``."""
        return urlsplit(self.url).scheme

    @property
    def address(self) -> tuple[str, int]:
        """Return host and port."""
        parts = urlsplit(self.url)
        return parts.hostname or "127.0.0.1", parts.port or 5672

    def through(self, port: int) -> "Broker":
        """Return the same broker, reached through a local port."""
        parts = urlsplit(self.url)
        login = f"{parts.username}:{parts.password}@" if parts.username else ""
        place = parts._replace(netloc=f"{login}127.0.0.1:{port}")
        return Broker(urlunsplit(place))

    def empty(self) -> None:
        """Leave our queues with nothing in them."""
        if self.scheme == "redis":
            with Redis.from_url(self.url) as client:
                client.flushdb()
            return
        with Connection(self.url) as connection:
            for queue in queues(self.scheme):
                with suppress(NotFound), connection.channel() as channel:
                    queue(channel).delete()
            # kombu remembers what it declared, and would not declare it for a ring
            with connection.channel() as channel:
                for queue in queues(self.scheme):
                    queue(channel).declare()

    def app(self) -> Celery:
        """Return an app that publishes to it as the product does."""
        app = Celery("tests", broker=self.url, set_as_current=False)
        app.conf.update(
            task_queues=queues(self.scheme),
            task_create_missing_queues=False,
            broker_transport_options=transport_options(self.scheme),
            broker_connection_timeout=1.5,
        )
        return app

    def ring(self, *message_ids: str, times: int = 1) -> None:
        """Publish the task of each message, so many times."""
        app = self.app()
        for _ in range(times):
            for message_id in message_ids:
                app.send_task(
                    "outbound.deliver_message", args=[message_id], queue="outbound"
                )
        app.close()

    def waiting(self, name: str) -> list[Any]:
        """Return the messages of a queue, taken out of it."""
        found = []
        with Connection(self.url) as connection, connection.channel() as channel:
            queue = next(q for q in queues(self.scheme) if q.name == name)(channel)
            queue.declare()
            while (message := queue.get(no_ack=True)) is not None:
                found.append(message)
        return found
