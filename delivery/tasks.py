"""Celery entry points of what becomes of a send; they take ids, never objects."""

from celery import shared_task

from delivery.services import apply_event as apply


@shared_task(name="delivery.apply_event")
def apply_event(inbox_id: str) -> None:
    """Apply one stored provider event, if it is still pending."""
    apply(inbox_id)
