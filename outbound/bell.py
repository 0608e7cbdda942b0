"""The bell: tells the dispatchers that a row has become due.

It only saves up to a second: a dispatcher looks once a second in any case, so a bell
that fails is logged and forgotten.
"""

import os
import threading
import time
from typing import Any, Final, LiteralString

import psycopg
import structlog

from core.database import session_parameters

CHANNEL: Final[LiteralString] = "pylota_due"
"""The channel on which dispatchers listen."""

PAUSE_SECONDS: Final = 0.005
"""The shortest time between two notifications of one process."""

log = structlog.get_logger()


def ring() -> None:
    """Wake the dispatchers soon; never waits, never raises.

    Call it after the commit. Many calls within 5 ms are one notification.
    """
    _bell.ring()


def stop() -> None:
    """End the bell's thread and close its connection; the next ring starts it anew."""
    _bell.stop()


class _Bell:
    """One daemon thread per process, started by its first ring."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rung = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._session: psycopg.Connection[Any] | None = None

    def ring(self) -> None:
        """Ask for a notification."""
        self._rung.set()
        if self._thread is None:
            self._start()

    def stop(self) -> None:
        """End the thread, if there is one, and wait for it."""
        with self._lock:
            thread, self._thread = self._thread, None
            self._stopping.set()
            self._rung.set()
        if thread is not None:
            thread.join(timeout=10)

    def _start(self) -> None:
        with self._lock:
            if self._thread is not None:
                return
            self._stopping = threading.Event()
            thread = threading.Thread(
                target=self._run, args=(self._stopping,), name="bell", daemon=True
            )
            try:
                thread.start()
            except (
                RuntimeError
            ) as error:  # no thread to be had: swallowed like the rest
                log.warning("bell_failed", exc_info=error)
                return
            self._thread = thread

    def _run(self, stopping: threading.Event) -> None:
        while True:
            self._rung.wait()
            self._rung.clear()
            if stopping.is_set():
                break
            self._notify()
            time.sleep(PAUSE_SECONDS)
        self._hang_up()

    def _notify(self) -> None:
        try:
            if self._session is None:
                self._session = psycopg.connect(**session_parameters(), autocommit=True)
            self._session.execute(f"NOTIFY {CHANNEL}")
        except Exception as error:
            # the text of a driver's error may hold the address and the user
            log.warning("bell_failed", exc_info=error)
            self._hang_up()

    def _hang_up(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()


_bell = _Bell()


def _forget() -> None:
    """Leave the parent's thread, lock and socket to the parent."""
    global _bell
    _inherited.append(_bell)
    _bell = _Bell()


_inherited: list[_Bell] = []
"""Bells of ancestors: kept, so that no finaliser says goodbye on a shared socket."""

os.register_at_fork(after_in_child=_forget)
