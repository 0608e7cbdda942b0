"""Celery entry points of the quota."""

from celery import shared_task

from quota import billing_services, send_quota, services, usage_services


@shared_task(name="quota.sweep_holds")
def sweep_holds() -> None:
    """Give back holds whose time has ended, or push them on while a send is queued."""
    services.sweep_holds()


@shared_task(name="quota.roll_periods")
def roll_periods() -> None:
    """Begin the periods that are due, and alert of a catalogue that is of no use."""
    billing_services.check_catalogue()
    billing_services.roll_periods()


@shared_task(name="quota.roll_up_usage")
def roll_up_usage() -> None:
    """Measure what is stored, write down what was used, and count what is there."""
    usage_services.roll_up()


@shared_task(name="quota.check_send_quota")
def check_send_quota() -> None:
    """Alert when most of the provider's daily quota is used."""
    send_quota.check_send_quota()
