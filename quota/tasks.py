"""Celery entry points of the quota."""

from celery import shared_task

from quota import billing_services, services


@shared_task(name="quota.sweep_holds")
def sweep_holds() -> None:
    """Give back holds whose time has ended, or push them on while a send is queued."""
    services.sweep_holds()


@shared_task(name="quota.roll_periods")
def roll_periods() -> None:
    """Begin the periods that are due, and alert of a catalogue that is of no use."""
    billing_services.check_catalogue()
    billing_services.roll_periods()
