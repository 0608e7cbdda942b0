"""Pulling Cloudflare's delivery events: lease, store, and only then acknowledge.

Wherever a worker dies, an event stands in the queue, in the inbox, or in both; the
inbox takes it once (architecture, section 5).
"""

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Final
from uuid import UUID

import structlog
from django.conf import settings
from django.db import Error, transaction

from core.clock import database_now
from core.deadline import Deadline
from core.metrics import DELIVERY_UNKNOWN_TYPE
from core.points import reach
from delivery import inbox, received, turns
from delivery.cloudflare_events import NoEvent, event_of
from delivery.cloudflare_queue import BATCH, CloudflareQueue, Leased, QueueFailed
from delivery.events import DeliveryEvent
from delivery.statuses import EventSource
from mailboxes.services import raise_alert

MOST_BATCHES: Final = 25
MOST_SECONDS: Final = 30.0
"""A turn ends after so many full batches, or so long: the next one goes on."""

UNREADABLE_ALERT: Final = "provider_event_unreadable"

log = structlog.get_logger()


def pull_events() -> None:
    """Bring what stands in the queue into the inbox, if it is our turn to.

    Safe to call at any time, and at the same time as anybody.
    """
    if (token := turns.take_turn(EventSource.CLOUDFLARE)) is None:
        return
    failure = _failure_of(token)
    with suppress(Error):  # the database is away: the turn lapses
        turns.end_turn(token, failure=failure)


def _failure_of(token: UUID) -> str | None:
    """Use the turn; return why it failed, in one word, if it did."""
    try:
        _pull_all(_queue(), token)
        return None
    except QueueFailed as failed:
        log.warning("event_pull_failed", queue="cloudflare", code=failed.code)
        return failed.code
    except Exception as error:
        log.warning("event_pull_failed", queue="cloudflare", exc_info=error)
        return "internal"


def _queue() -> CloudflareQueue:
    return CloudflareQueue(
        account_id=settings.PM_CF_ACCOUNT_ID,
        queue_id=settings.PM_CF_QUEUE_ID,
        token=settings.PM_CF_API_TOKEN,
        base=settings.PM_CF_API_BASE,
    )


def _pull_all(queue: CloudflareQueue, token: UUID) -> None:
    """Take batches while they are full, within bounds; raises QueueFailed."""
    time = Deadline(MOST_SECONDS)
    for _ in range(MOST_BATCHES):
        leased = queue.lease()
        if leased:
            _keep(leased)
            reach("cloudflare_pull.stored")
            _acknowledge(queue, leased)
        if len(leased) < BATCH or time.has_passed or not turns.keep_turn(token):
            return


def _acknowledge(queue: CloudflareQueue, leased: Sequence[Leased]) -> None:
    forgotten = queue.acknowledge(leased)
    if forgotten == 0:
        raise QueueFailed("nothing_acknowledged")
    if forgotten < len(leased):  # the rest comes again, and is known by then
        left = len(leased) - forgotten
        log.warning("events_not_acknowledged", queue="cloudflare", count=left)


def _keep(leased: Sequence[Leased]) -> None:
    """Store all that a batch holds, in one transaction."""
    now = database_now()
    read = [(message, _read(message, now=now)) for message in leased]
    events = [found for _, found in read if isinstance(found, DeliveryEvent)]
    unreadable = [message for message, found in read if found is NoEvent.UNREADABLE]
    with transaction.atomic(durable=True):
        inbox.store(events, due_at=[now] * len(events))
        if unreadable:
            _keep_unreadable(unreadable, now=now)
    for message in unreadable:
        log.warning(UNREADABLE_ALERT, queue="cloudflare", event_id=message.id)
    unknown = sum(found is NoEvent.UNKNOWN_TYPE for _, found in read)
    DELIVERY_UNKNOWN_TYPE.inc(unknown)


def _keep_unreadable(messages: Sequence[Leased], *, now: datetime) -> None:
    """Keep for a person what has no event in it; they are told of it."""
    for message in messages:
        received.keep_body(EventSource.CLOUDFLARE, message.id, message.octets, now=now)
    ids = [message.id for message in messages]
    raise_alert(UNREADABLE_ALERT, subject="cloudflare", details={"queue_messages": ids})


def _read(message: Leased, *, now: datetime) -> DeliveryEvent | NoEvent:
    return event_of(
        message.body,
        published_at=message.published_at,
        now=now,
    )
