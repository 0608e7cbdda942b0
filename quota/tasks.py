"""Celery entry points of the quota."""

from celery import shared_task

from quota import services


@shared_task(name="quota.sweep_holds")
def sweep_holds() -> None:
    """Give back holds whose time has ended, or push them on while a send is queued."""
    services.sweep_holds()
