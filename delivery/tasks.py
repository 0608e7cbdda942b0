"""Celery entry points of what becomes of a send; they take ids, never objects."""

from contextlib import suppress

import structlog
from celery import shared_task
from django.conf import settings
from django.db import Error

from delivery import inbox, received, services


@shared_task(name="delivery.apply_event")
def apply_event(inbox_id: str) -> None:
    """Apply one stored provider event, if it is still pending; later, if that fails."""
    try:
        services.apply_event(inbox_id)
    except Exception as error:
        structlog.get_logger().warning(
            "event_failed", event_id=inbox_id, exc_info=error
        )
        with suppress(Error):  # the database is away: it is due again in any case
            services.put_off_failed(inbox_id)


@shared_task(name="delivery.pull_cloudflare_events")
def pull_cloudflare_events() -> None:
    """Bring Cloudflare's delivery events into the inbox, where a queue is set."""
    if settings.PM_CF_QUEUE_ID:
        from delivery import cloudflare_pull  # and with it httpx, which takes its time

        cloudflare_pull.pull_events()


@shared_task(name="delivery.purge_bodies")
def purge_bodies() -> None:
    """Forget what providers posted 30 days ago."""
    received.purge_bodies()


@shared_task(name="delivery.purge_events")
def purge_events() -> None:
    """Forget provider events that came to their end long ago."""
    inbox.purge_events()
