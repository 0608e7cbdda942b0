"""What a worker process does beside its tasks: dispatcher, alarms, clock, an early end.

Celery's own ``stop`` comes seconds after the signal; the flag that forbids new rings
and claims is set inside the signal handler.
"""

import os
import threading
from typing import Any, Final

import structlog
from celery import bootsteps
from celery.beat import Scheduler, Service
from celery.signals import worker_ready, worker_shutting_down
from django.conf import settings
from django.db import connection

from outbound import alarms, dispatch, slots
from outbound.dispatcher import Alarm, Dispatcher
from pylota.checks import refuse_wrong_session
from pylota.watch.evaluate import keep_watch
from webhooks.deliver import stop_waiting

HUB_TICK_SECONDS: Final = 0.5
"""An idle event loop sleeps up to 10 s and sees SIGTERM late; this wakes it up."""

WATCH_AFTER_SECONDS: Final = 60.0
"""When a new worker looks at the conditions first; beat's task does at once."""

READY_FD: Final = "PM_READY_FD"
"""Names the pipe on which whoever started this process hears that it takes tasks."""

log = structlog.get_logger()


class SessionCheck(bootsteps.Step):
    """Refuses to start on a database session that breaks the promises."""

    def __init__(self, parent: Any, **options: Any) -> None:
        super().__init__(parent, **options)
        refuse_wrong_session()


class Dispatching(bootsteps.StartStopStep):
    """The dispatcher's thread and the alarms'."""

    requires = ("celery.worker.components:Pool",)

    def __init__(self, parent: Any, **options: Any) -> None:
        super().__init__(parent, **options)
        self._threads: tuple[Dispatcher | Alarm, ...] = ()

    def start(self, parent: Any) -> None:
        """Start them; over ``memory://`` what was rung before is due again first."""
        if settings.CELERY_BROKER_URL.startswith("memory:"):
            dispatch.reset_rung()
        if settings.LOCAL:
            log.warning("private_hosts_allowed", detail="pm_env_local")
        self._threads = (
            Dispatcher(at_end=_grant_no_slot),
            Alarm("claim_alarm", alarms.sweep_claims),
            Alarm("dispatch_alarm", dispatch.dispatch_due),
            # beat has begun by then, if it was started together with this worker
            Alarm("watch", keep_watch, after=WATCH_AFTER_SECONDS),
        )
        for thread in self._threads:
            thread.start()

    def stop(self, parent: Any) -> None:
        """End them."""
        dispatch.Closing.is_set = True
        for thread in self._threads:
            thread.stop()

    terminate = stop


class BeatThread(bootsteps.StartStopStep):
    """Beat inside this worker, where asked; it keeps no file."""

    requires = (Dispatching,)

    def __init__(self, parent: Any, beat_thread: bool = False, **options: Any) -> None:
        super().__init__(parent, **options)
        self.enabled = beat_thread
        self._service: Service | None = None

    def start(self, parent: Any) -> None:
        """Start it."""
        self._service = Service(parent.app, scheduler_cls=Scheduler, max_interval=1)
        threading.Thread(target=self._run, name="beat", daemon=True).start()

    def stop(self, parent: Any) -> None:
        """Ask it to end; nothing of it needs to be saved."""
        if self._service is not None:
            self._service.stop(wait=False)

    terminate = stop

    def _run(self) -> None:
        while self._service is not None and not dispatch.Closing.is_set:
            try:
                self._service.start()
                return
            except Exception as error:
                log.warning("beat_failed", exc_info=error)
                threading.Event().wait(1)


class EarlySignals(bootsteps.StartStopStep):
    """Wakes the event loop twice a second, so that it sees a signal in time."""

    requires = ("celery.worker.components:Hub",)

    def start(self, parent: Any) -> None:
        """Tick, where there is an event loop."""
        if parent.hub is not None:
            parent.hub.timer.call_repeatedly(HUB_TICK_SECONDS, _nothing)


def _grant_no_slot() -> None:
    """Send away whoever waits for a slot: a claim would come too late."""
    slots.process_slots().close()
    stop_waiting()
    connection.close()


def _nothing() -> None:
    """Tick."""


@worker_shutting_down.connect(weak=False)
def _close(**_: object) -> None:
    dispatch.Closing.is_set = True


@worker_ready.connect(weak=False)
def _say_ready(**_: object) -> None:
    if number := os.environ.pop(READY_FD, ""):
        os.write(int(number), b"1")
        os.close(int(number))
