"""Celery entry points of mail that comes in; they take ids, never objects."""

from contextlib import suppress

import structlog
from celery import shared_task
from django.db import Error

from inbound import services
from inbound.receive import receive


@shared_task(name="inbound.receive_copy")
def receive_copy(job_id: str) -> None:
    """Take in one copy, if it is still pending; later, if that fails."""
    try:
        receive(job_id)
    except Exception as error:
        structlog.get_logger().warning("receive_failed", job_id=job_id, exc_info=error)
        with suppress(Error):  # the database is away: it is due again in any case
            services.put_off_failed(job_id)
