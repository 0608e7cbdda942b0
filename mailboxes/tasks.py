"""Celery entry points of mailboxes."""

from celery import shared_task

from mailboxes import address_sweeps, deletions, repeats


@shared_task(name="mailboxes.purge_answers")
def purge_answers() -> None:
    """Forget the answers to POSTs whose keys have ended."""
    repeats.purge_answers()


@shared_task(name="mailboxes.retire_addresses")
def retire_addresses() -> None:
    """Retire the addresses whose time has come."""
    address_sweeps.retire_due()


@shared_task(name="mailboxes.finish_deletions")
def finish_deletions() -> None:
    """End the identities that are being deleted and have nothing queued."""
    deletions.finish_deletions()
