"""Celery entry points of sending; a line or two each. They take ids, never objects."""

from celery import shared_task

from core.clock import database_now
from outbound import alarms, dispatch, orphans, purge
from outbound.deliver import deliver


@shared_task(name="outbound.deliver_message")
def deliver_message(message_id: str) -> None:
    """Make one transport call for this message, if one is due."""
    deliver(message_id)


@shared_task(name="outbound.dispatch_due")
def dispatch_due() -> None:
    """Ring rows that nobody was woken for: the dispatch alarm."""
    dispatch.dispatch_due()


@shared_task(name="outbound.sweep_claims")
def sweep_claims() -> None:
    """Make claims that ran out uncertain: the claim alarm."""
    alarms.sweep_claims()


@shared_task(name="outbound.purge_ledger")
def purge_ledger() -> None:
    """Forget keys whose time has ended and whose sends are settled."""
    purge.purge_ledger()


@shared_task(name="outbound.sweep_objects")
def sweep_objects() -> None:
    """Delete what sends that were never accepted have left in the object store."""
    orphans.sweep_objects(now=database_now())
