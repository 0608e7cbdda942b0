"""Celery entry points of what becomes of a send; they take ids, never objects."""

from contextlib import suppress

import structlog
from celery import shared_task
from django.db import Error

from delivery import feedback, services


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


@shared_task(name="delivery.check_feedback")
def check_feedback() -> None:
    """Alert of domains whose provider says nothing of what was sent."""
    feedback.check_feedback()
