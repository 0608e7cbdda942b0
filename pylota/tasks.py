"""Celery entry points of the whole."""

from celery import shared_task

from pylota.watch import evaluate


@shared_task(name="pylota.keep_watch")
def keep_watch() -> None:
    """Mark that beat is there, and look at the conditions that are due."""
    evaluate.mark_beat()
    evaluate.keep_watch()
