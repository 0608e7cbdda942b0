"""Celery entry points of events out; they take ids, never objects."""

from celery import shared_task

from webhooks.deliver import deliver


@shared_task(name="webhooks.deliver_event")
def deliver_event(dispatch_id: str) -> None:
    """Hand one event to one endpoint, if it is due."""
    deliver(dispatch_id)
