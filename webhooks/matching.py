"""Which endpoint is told of which event (REST contract, section 6, "Matching"). Pure.

``outbox`` says the same in SQL, and a test holds the two together.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from webhooks.catalogue import EVERYTHING, PLATFORM_ONLY, TEST


@dataclass(frozen=True, slots=True)
class Interest:
    """What an endpoint asked for; without a tenant it is the platform's.

    ``events`` are types or ``*``; no ``identity_ids`` means all of them.
    """

    tenant_id: str | None
    events: Sequence[str]
    identity_ids: Sequence[str] | None
    is_enabled: bool
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Occurrence:
    """What of an event decides who is told of it."""

    type: str
    tenant_id: str | None
    identity_id: str | None
    occurred_at: datetime


def is_told(endpoint: Interest, event: Occurrence) -> bool:
    """Tell whether an event goes to an endpoint by itself, when it is dispatched.

    Instants of events are cut to milliseconds, so the endpoint's is cut too: what
    happens in the millisecond of its creation counts as later.
    """
    since = endpoint.created_at
    cut = since.replace(microsecond=since.microsecond // 1000 * 1000)
    return endpoint.is_enabled and event.occurred_at >= cut and wants(endpoint, event)


def wants(endpoint: Interest, event: Occurrence) -> bool:
    """Tell whether an endpoint's scope and filters cover an event.

    All that a replay asks: what came before the endpoint, or while it was off, may be
    replayed to it.
    """
    return (
        _covers(endpoint, event)
        and _names(endpoint, event.type)
        and (
            endpoint.identity_ids is None or event.identity_id in endpoint.identity_ids
        )
    )


def _covers(endpoint: Interest, event: Occurrence) -> bool:
    if endpoint.tenant_id is None:
        return True
    return event.tenant_id == endpoint.tenant_id and event.type not in PLATFORM_ONLY


def _names(endpoint: Interest, event_type: str) -> bool:
    if event_type == TEST:
        return False
    return EVERYTHING in endpoint.events or event_type in endpoint.events
