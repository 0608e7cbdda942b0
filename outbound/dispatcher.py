"""The threads of a worker process that keep the queue and the claims moving.

None depends on the pool, and no exception ends one.
"""

import threading
from collections.abc import Callable
from typing import Any, Final

import psycopg
import structlog
from django.conf import settings
from django.db import close_old_connections, connection
from psycopg.conninfo import conninfo_to_dict

from core.database import session_parameters
from outbound import bell, dispatch
from webhooks import outbox

LOOK_SECONDS: Final = 1.0
"""How long a dispatcher waits for the bell before it looks by itself."""

log = structlog.get_logger()


class _Persistent(threading.Thread):
    """A daemon thread that does one thing again and again until it is stopped."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.stopping = threading.Event()

    def run(self) -> None:
        """Turn until stopped; an exception costs one turn."""
        while not self.stopping.is_set() and not dispatch.Closing.is_set:
            try:
                close_old_connections()
                self.turn()
            except Exception as error:
                log.warning(f"{self.name}_failed", exc_info=error)
                close_old_connections()
                self.stopping.wait(LOOK_SECONDS)
        connection.close()
        self.close()

    def turn(self) -> None:
        """Do it once."""

    def close(self) -> None:
        """Let go of what the thread holds."""

    def stop(self, *, seconds: float = 10.0) -> None:
        """End the thread after its turn, and wait for it."""
        self.stopping.set()
        if self.is_alive():
            self.join(timeout=seconds)


class Dispatcher(_Persistent):
    """Numbers events and rings what is due: at the bell, and once a second in any case.

    ``at_end`` runs in its thread, within a second of the process beginning to end: a
    signal handler may take no lock.
    """

    def __init__(self, *, at_end: Callable[[], None] | None = None) -> None:
        super().__init__("dispatcher")
        self._at_end = at_end
        self._session: psycopg.Connection[Any] | None = None

    def turn(self) -> None:
        """Number a batch of events and ring all that is due, then wait, unless full."""
        is_full = self._number_events()
        dispatch.dispatch_due()
        if not is_full:
            self._wait()

    def close(self) -> None:
        """Stop listening."""
        self._hang_up()
        if self._at_end is not None:
            self._at_end()

    def _number_events(self) -> bool:
        """Tell whether more events may be waiting; what fails here keeps no mail."""
        try:
            return outbox.number_events().is_full
        except Exception as error:
            log.warning("outbox_failed", exc_info=error)
            close_old_connections()
            return False

    def _hang_up(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def _wait(self) -> None:
        try:
            if self._session is None:
                self._session = listening_session()
                return  # a bell may have rung before we listened: look once more
            for _ in self._session.notifies(timeout=LOOK_SECONDS, stop_after=1):
                pass
            for _ in self._session.notifies(timeout=0):
                pass  # one look serves all that have rung by now
        except Exception:
            self._hang_up()
            raise


class Alarm(_Persistent):
    """Runs one alarm every ``PM_ALARM_SECONDS``, whatever else stands still.

    Each has a thread: a publish that hangs must not keep claims from being freed. The
    first turn may wait for ``after`` seconds.
    """

    def __init__(
        self, name: str, alarm: Callable[[], object], *, after: float = 0.0
    ) -> None:
        super().__init__(name)
        self._alarm = alarm
        self._after = after

    def run(self) -> None:
        """Turn until stopped, once the first wait is over."""
        self.stopping.wait(self._after)
        super().run()

    def turn(self) -> None:
        """Run it, then wait."""
        self._alarm()
        self.stopping.wait(settings.PM_ALARM_SECONDS)


def listening_session() -> psycopg.Connection[Any]:
    """Open the connection that hears the bell: direct, since a pooler drops LISTEN."""
    parameters = session_parameters()
    if settings.PM_LISTEN_DATABASE_URL:
        parameters |= conninfo_to_dict(settings.PM_LISTEN_DATABASE_URL)
    session = psycopg.connect(**parameters, autocommit=True)
    session.execute(f"LISTEN {bell.CHANNEL}")
    return session
