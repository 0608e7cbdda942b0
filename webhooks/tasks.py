"""Celery entry points of what is told to clients."""

from celery import shared_task

from webhooks import outbox, retention


@shared_task(name="webhooks.number_events")
def number_events() -> None:
    """Give events their place in the feed that no dispatcher has seen to: the alarm."""
    outbox.number_all()


@shared_task(name="webhooks.purge_events")
def purge_events() -> None:
    """Forget events that have been kept for as long as their tenant's policy says."""
    retention.purge_events()
