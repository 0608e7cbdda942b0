"""The Celery app: four queues that carry ids, and a clock.

Celery only wakes a worker up. What is due stands in rows; losing every message of the
broker loses nothing (architecture section 4).
"""

import os
from datetime import timedelta
from typing import Any, Final
from urllib.parse import urlsplit

from celery import Celery
from celery.signals import task_postrun, task_prerun
from click import Option
from django.conf import settings
from django.db import close_old_connections
from kombu import Exchange, Queue

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "pylota.settings")
# Django's checks import every view; make check runs them, a start need not
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")

QUEUES: Final = ("outbound", "events", "webhooks", "maintenance")

PUBLISH_STEP_SECONDS: Final = 1.5
"""A publish is several exchanges; with this limit on each it ends in about 5 s."""


def transport_options(scheme: str) -> dict[str, Any]:
    """Return what keeps a broker that hangs from hanging its caller."""
    # one attempt to connect: a refused port must not be tried for seconds
    once = {"max_retries": 1, "interval_start": 0, "interval_step": 0}
    match scheme:
        case "memory":
            return {"polling_interval": 0.01}
        case "redis" | "rediss":
            return once | {"socket_timeout": 5, "socket_connect_timeout": 5}
        case _:
            return once | {
                "confirm_publish": True,
                "read_timeout": PUBLISH_STEP_SECONDS,
                "write_timeout": PUBLISH_STEP_SECONDS,
            }


def queues(scheme: str) -> list[Queue]:
    """Return the queues, each with an exchange and a key of its own name.

    Left to itself, kombu would bind them all to the default queue's.
    """
    arguments = {"x-queue-type": "quorum"} if scheme.startswith("amqp") else None
    return [
        Queue(name, Exchange(name), routing_key=name, queue_arguments=arguments)
        for name in QUEUES
    ]


def every(task: str, period: float, queue: str = "maintenance") -> dict[str, Any]:
    """Return a schedule entry; a task not begun within its period is dropped."""
    return {
        "task": task,
        "schedule": timedelta(seconds=period),
        "options": {"queue": queue, "expires": period},
    }


HOUR: Final = 3600.0
"""What is due daily is looked at hourly: beat counts from its own start."""

_scheme = urlsplit(settings.CELERY_BROKER_URL).scheme

app = Celery("pylota")
# another thread of this process must find this app as well, not an empty default one
app.set_default()
app.conf.update(
    broker_url=settings.CELERY_BROKER_URL,
    broker_connection_timeout=PUBLISH_STEP_SECONDS,
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    broker_transport_options=transport_options(_scheme),
    task_queues=queues(_scheme),
    task_default_queue="maintenance",
    task_create_missing_queues=False,
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    task_ignore_result=True,
    task_publish_retry=False,
    task_store_errors_even_if_ignored=False,
    worker_pool="threads",
    worker_concurrency=settings.PM_WORKER_THREADS,
    worker_prefetch_multiplier=1,
    worker_enable_remote_control=False,
    worker_hijack_root_logger=False,
    # what we log would be logged once more, without its words
    worker_redirect_stdouts=False,
    worker_send_task_events=False,
    timezone="UTC",
    beat_scheduler="celery.beat:Scheduler",
    beat_max_loop_interval=1,
    beat_schedule={
        "dispatch alarm": every("outbound.dispatch_due", settings.PM_ALARM_SECONDS),
        "claim alarm": every("outbound.sweep_claims", settings.PM_ALARM_SECONDS),
        "outbox alarm": every("webhooks.number_events", 5),
        "event pull": every(
            "delivery.pull_cloudflare_events", settings.PM_ALARM_SECONDS
        ),
        "hold sweep": every("quota.sweep_holds", 30),
        "period rollover": every("quota.roll_periods", 300),
        "usage roll-up": every("quota.roll_up_usage", 900),
        "send quota": every("quota.check_send_quota", 60),
        "ledger purge": every("outbound.purge_ledger", HOUR),
        "orphan sweep": every("outbound.sweep_objects", HOUR),
        "answers purge": every("mailboxes.purge_answers", HOUR),
        "bodies purge": every("delivery.purge_bodies", HOUR),
        "events purge": every("delivery.purge_events", HOUR),
        "feed purge": every("webhooks.purge_events", HOUR),
        "address retirement": every("mailboxes.retire_addresses", 60),
        "watch": every("pylota.keep_watch", settings.PM_ALARM_SECONDS),
        "identity deletion": every("mailboxes.finish_deletions", 60),
    },
)
# Celery closes every connection around each task unless it may use them this often
app.conf["CELERY_DB_REUSE_MAX"] = 10**9
app.autodiscover_tasks()
app.user_options["worker"].add(
    Option(["--beat-thread"], is_flag=True, help="Run beat as a thread of this worker.")
)
# by name: they import models, which must wait for Django
app.steps["worker"].update(
    f"pylota.bootsteps.{step}"
    for step in ("SessionCheck", "Dispatching", "BeatThread", "EarlySignals")
)


@task_prerun.connect(weak=False)
@task_postrun.connect(weak=False)
def _drop_dead_connections(**_: object) -> None:
    """Let a thread recover from a backend that was killed between two tasks."""
    close_old_connections()
