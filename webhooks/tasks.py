"""Celery entry points of events out; they take ids, never objects."""

from celery import shared_task

from webhooks import outbox, retention
from webhooks.deliver import deliver


@shared_task(name="webhooks.number_events")
def number_events() -> None:
    """Give events their place in the feed that no dispatcher has seen to: the alarm."""
    outbox.number_all()


@shared_task(name="webhooks.purge_events")
def purge_events() -> None:
    """Forget events that have been kept for as long as their tenant's policy says."""
    retention.purge_events()


@shared_task(name="webhooks.deliver_event")
def deliver_event(dispatch_id: str) -> None:
    """Hand one event to one endpoint, if it is due."""
    deliver(dispatch_id)
