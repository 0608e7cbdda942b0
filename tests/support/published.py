"""Holds each event that a test stores against the published schema of its type."""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from core.ids import new_id
from webhooks.catalogue import EVENT_TYPES

Store = Callable[..., None]


class NotAsPublished(AssertionError):
    """An event is not what clients are told that it is."""


def checked(store: Store) -> Store:
    """Return the function that stores events, which looks at each of them first."""

    def look_and_store(events: Sequence[Any], *, now: datetime) -> None:
        for one in events:
            check_payload(one.payload(one.event.id or new_id("evt"), now=now))
        store(events, now=now)

    return look_and_store


def check_payload(payload: Mapping[str, Any]) -> None:
    """Raise NotAsPublished unless an event has exactly the form of its type."""
    from webhooks.schemas import EVENTS  # no test of pure code needs them

    name = str(payload["type"])
    if name not in EVENT_TYPES or name not in EVENTS:
        raise NotAsPublished(f"{name} is no type of event")
    try:
        EVENTS[name].model_validate_json(json.dumps(payload), strict=True)
    except ValidationError as error:
        raise NotAsPublished(f"{name}: {error}") from None
