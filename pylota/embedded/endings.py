"""How a process that uses the server ends: atexit, and signals that skip it."""

import atexit
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Protocol

from pylota.embedded.errors import EmbeddedFailed

# SIGINT is not here: Python turns it into KeyboardInterrupt, and atexit runs.
_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


class Stoppable(Protocol):
    """What is stopped at the end."""

    def stop(self) -> bool:
        """Stop; safe to call twice."""


_live: list[Stoppable] = []
_starter = 0
_stopping = False
_postponed: int | None = None


def watch(server: Stoppable) -> None:
    """Stop the server when this process ends, by whatever it can notice.

    Signals whose handler somebody else has set stay theirs: that handler must end the
    process in a way that runs ``atexit``, or call ``stop``.
    """
    global _starter
    if _starter != os.getpid():  # the first one here, or in a forked child
        _starter = os.getpid()
        _live.clear()
    _live.append(server)
    atexit.register(_stop, server)
    if threading.current_thread() is threading.main_thread():
        for signum in _SIGNALS:
            if signal.getsignal(signum) is signal.SIG_DFL:
                signal.signal(signum, _stop_and_die)


def forget(server: Stoppable) -> None:
    """Take the server off the list: it was stopped."""
    if server in _live:
        _live.remove(server)


@contextmanager
def stopping() -> Iterator[None]:
    """Let a stop that is under way finish before a signal ends the process."""
    global _stopping
    _stopping = True
    try:
        yield
    finally:
        _stopping = False
        if _postponed is not None:
            _die(_postponed)


@contextmanager
def interruptible() -> Iterator[None]:
    """Turn a signal during a start into ``SystemExit``, so that the start cleans up."""
    main = threading.current_thread() is threading.main_thread()
    defaults = [s for s in _SIGNALS if signal.getsignal(s) is signal.SIG_DFL]
    if not main:
        defaults = []
    for signum in defaults:
        signal.signal(signum, _exit)
    try:
        yield
    finally:
        for signum in defaults:
            signal.signal(signum, signal.SIG_DFL)


def _exit(signum: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + signum)


def _stop_and_die(signum: int, _frame: FrameType | None) -> None:
    global _postponed
    if _starter == os.getpid():
        if _stopping:
            _postponed = signum
            return
        for server in list(_live):
            _stop(server)
    _die(signum)


def _stop(server: Stoppable) -> None:
    """Stop at the end of the process, where nobody catches what goes wrong."""
    try:
        server.stop()
    except EmbeddedFailed as error:
        sys.stderr.write(f"{error}\n")


def _die(signum: int) -> None:
    """End as if the signal had not been caught, so that the parent sees why."""
    signal.signal(signum, signal.SIG_DFL)
    os.kill(os.getpid(), signum)
