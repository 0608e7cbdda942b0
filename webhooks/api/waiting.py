"""Requests that wait for a tenant's host: few at a time, and in no transaction."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from django.conf import settings

from core.errors import InvalidRequest, Unavailable
from webhooks.destination import DestinationRefused, check_destination

MOST: Final = max(1, int(settings.PM_WEB_THREADS) // 2)
"""Half of the web's threads: hosts that are slow to answer leave the rest to others."""

_places = threading.BoundedSemaphore(MOST)


@contextmanager
def place_to_wait() -> Iterator[None]:
    """Hold one of the places for requests that wait for a host; raises Unavailable."""
    if not _places.acquire(blocking=False):
        raise Unavailable(
            "Too many requests are waiting for hosts of endpoints.",
            details={"reason": "endpoints_slow"},
        )
    try:
        yield
    finally:
        _places.release()


def check_url(url: str) -> None:
    """Raise InvalidRequest at ``url`` unless it may be an endpoint's at this moment.

    Looks its host up. Raises Unavailable when too many wait already.
    """
    with place_to_wait():
        try:
            check_destination(url)
        except DestinationRefused as refused:
            raise InvalidRequest.at("url", f"The url is refused: {refused}.") from None
