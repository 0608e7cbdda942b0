"""Worker processes at a third of their price: forked where the libraries stand ready.

Most of a worker's start goes into importing what is not ours. The nursery has imported
that, and nothing of Pylota; each worker is a fork of it which gets its environment,
session, folder and output, and then imports and runs all of ours as usual. Linux only,
as are the tests that kill by ``/proc``.

``python -m tests.support.nursery FD`` serves the socket: an order with its descriptors
gives a process id; the end of each child is told as it comes.
"""

import atexit
import json
import math
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final

ROOT = Path(__file__).resolve().parents[2]
LIBRARIES: Final = (
    *("celery.apps.worker", "celery.beat", "celery.bin.celery", "celery.fixups.django"),
    *("celery.concurrency.thread", "celery.contrib.django.task", "celery.events"),
    *("cryptography.hazmat.primitives.ciphers.aead", "dj_database_url"),
    *("django.contrib.admin", "django.contrib.postgres.fields", "django.views.debug"),
    *("django.contrib.postgres.indexes", "django.contrib.postgres.search"),
    *("django.core.management", "django.core.serializers.json", "django.db.migrations"),
    *("django.db.backends.postgresql.base", "django.db.migrations.executor"),
    *("kombu.transport.memory", "kombu.transport.pyamqp", "kombu.transport.redis"),
    *("prometheus_client", "pydantic.functional_validators", "pydantic.types"),
    *("structlog", "ulid"),
)
MESSAGE: Final = 1 << 17


class Child:
    """A process of the nursery, as its Popen would be."""

    def __init__(self, nursery: "Nursery", pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._nursery = nursery

    def poll(self) -> int | None:
        """Return the status it ended with, or None; minus the signal, as Popen does."""
        if self.returncode is None:
            self.returncode = self._nursery.ended(self.pid)
        return self.returncode

    def wait(self, timeout: float = math.inf) -> int:
        """Return the status; raises TimeoutExpired after so many seconds."""
        deadline = time.monotonic() + timeout
        while (status := self.poll()) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("worker", timeout)
            time.sleep(0.005)
        return status


class Nursery:
    """The running nursery of this process; it ends with us."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.nursery", str(theirs.fileno())],
                cwd=ROOT,
                env={"PATH": os.environ.get("PATH", "")},
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        self._ended: dict[int, int] = {}
        self._lock = threading.Lock()

    def start(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        *,
        folder: Path,
        output: int,
        ready: int,
        module: str = "tests.support.planted",
    ) -> Child:
        """Fork a worker with these; ``ready`` becomes its ``PM_READY_FD``.

        ``module`` is what it runs, as ``python -m`` would.
        """
        order = {
            "module": module,
            "arguments": arguments,
            "environment": environment,
            "folder": str(folder),
        }
        with self._lock:
            socket.send_fds(self._socket, [json.dumps(order).encode()], [output, ready])
            while "started" not in (told := self._told()):
                self._note(told)
        return Child(self, told["started"])

    def ended(self, pid: int) -> int | None:
        """Return the status of a child that has ended."""
        with self._lock:
            while select.select([self._socket], [], [], 0)[0]:
                self._note(self._told())
        return self._ended.get(pid)

    def close(self) -> None:
        """End it."""
        self._socket.close()
        self._process.wait(timeout=30)

    def _told(self) -> dict[str, int]:
        told: dict[str, int] = json.loads(self._socket.recv(MESSAGE))
        return told

    def _note(self, told: dict[str, int]) -> None:
        self._ended[told["ended"]] = told["status"]


@cache
def nursery() -> Nursery:
    """Return the nursery of this process; the first call starts it."""
    made = Nursery()
    atexit.register(made.close)
    return made


def serve(orders: socket.socket) -> dict[str, Any] | None:
    """Fork for each order; return it in the child, and None when all is over."""
    waking, woken = socket.socketpair()
    for end in (waking, woken):
        end.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waking.fileno())
    while True:
        ready, _, _ = select.select([orders, woken], [], [])
        if woken in ready:
            woken.recv(MESSAGE)
            tell_of_the_dead(orders)
        if orders in ready:
            text, descriptors, _, _ = socket.recv_fds(orders, MESSAGE, 2)
            if not text:
                return None
            if (pid := os.fork()) == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for end in (orders, waking, woken):
                    end.close()
                return {**json.loads(text), "descriptors": descriptors}
            orders.send(json.dumps({"started": pid}).encode())
            for descriptor in descriptors:
                os.close(descriptor)


def tell_of_the_dead(orders: socket.socket) -> None:
    """Reap every child that has ended."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        told = {"ended": pid, "status": os.waitstatus_to_exitcode(status)}
        orders.send(json.dumps(told).encode())


def become(order: dict[str, Any]) -> None:
    """Be the worker that was ordered, as if started for it alone."""
    os.setsid()
    os.chdir(order["folder"])
    output, ready = order["descriptors"]
    os.environ.clear()
    os.environ.update(order["environment"], PM_READY_FD=str(ready))
    nothing = os.open(os.devnull, os.O_RDONLY)
    for descriptor, number in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(descriptor, number)
    os.close(nothing)
    os.close(output)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(write_through=True)  # type: ignore[union-attr]  # text
    sys.argv[1:] = order["arguments"]
    runpy.run_module(order["module"], run_name="__main__", alter_sys=True)


def main() -> None:
    """Import, serve; in a child, go on as the worker."""
    for library in LIBRARIES:
        import_module(library)
    assert "pylota" not in sys.modules
    with socket.socket(fileno=int(sys.argv[1])) as orders:
        order = serve(orders)
    if order is not None:
        become(order)


if __name__ == "__main__":
    main()
