"""Celery entry points of mailboxes."""

from celery import shared_task

from mailboxes import repeats


@shared_task(name="mailboxes.purge_answers")
def purge_answers() -> None:
    """Forget the answers to POSTs whose keys have ended."""
    repeats.purge_answers()
