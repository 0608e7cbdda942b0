"""Run a worker, or name points for a web process, with things planted on the path.

``PM_TEST_PLANTED`` says what happens where, e.g.
``deliver.claimed=stop;deliver.answered=mark:/tmp/a+await:/tmp/b+kill``. A point may say
how often at most: ``deliver.claimed@1=kill``. Actions, joined by ``+``:

``stop``        SIGSTOP to this process
``kill``        SIGKILL to this process
``sleep:S``     wait S seconds in this thread
``raise``       raise RuntimeError
``mark:PATH``   append one line, this process's id, to a file
``await:PATH``  wait until that file exists

``PM_TEST_CELERY`` holds JSON that is laid over Celery's settings. ``PM_TEST_TASKS``
names a file that gets a line ``ready``, and one for each task that begins: its name and
its arguments.

A worker: ``python -m tests.support.planted worker …`` (Celery's own arguments follow).
A web process: let granian load ``tests.support.planted_wsgi:application``.
"""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PLANTED = "PM_TEST_PLANTED"
CELERY = "PM_TEST_CELERY"
TASKS = "PM_TEST_TASKS"


def action_of(text: str) -> Callable[[], None]:
    """Return what one word of a plan does."""
    word, _, argument = text.partition(":")
    match word:
        case "stop":
            # to this thread: another one of the process would leave it time to go on
            return lambda: signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
        case "kill":
            return lambda: os.kill(os.getpid(), signal.SIGKILL)
        case "sleep":
            return lambda: time.sleep(float(argument))
        case "raise":
            return _raise
        case "mark":
            return lambda: _mark(Path(argument))
        case "await":
            return lambda: _await(Path(argument))
        case _:
            raise ValueError(f"{PLANTED}: unknown action {text}")


def _raise() -> None:
    raise RuntimeError("planted")


def _mark(path: Path) -> None:
    with path.open("a") as file:
        file.write(f"{os.getpid()}\n")


def _await(path: Path) -> None:
    while not path.exists():
        time.sleep(0.005)


def plan_of(text: str) -> dict[str, Callable[[], None]]:
    """Return the actions of a whole plan by the name of their point."""
    plan = {}
    for part in filter(None, text.split(";")):
        point, _, words = part.partition("=")
        name, _, times = point.partition("@")
        steps = [action_of(word) for word in words.split("+")]
        plan[name] = _at_most(int(times) if times else None, steps)
    return plan


def _at_most(times: int | None, steps: list[Callable[[], None]]) -> Callable[[], None]:
    lock = threading.Lock()
    left = times

    def run() -> None:
        nonlocal left
        with lock:
            if left == 0:
                return
            if left is not None:
                left -= 1
        for step in steps:
            step()

    return run


def plant() -> None:
    """Plant what the environment asks for."""
    from core import points

    points.planted.update(plan_of(os.environ.get(PLANTED, "")))


def write_tasks(path: Path) -> None:
    """Let the file tell what this worker does."""
    from celery.signals import task_prerun, worker_ready

    def write(text: str) -> None:
        with path.open("a") as file:
            file.write(f"{text}\n")

    def begun(*, task: Any, args: Any, **_: object) -> None:
        write(" ".join([task.name, *args]))

    worker_ready.connect(lambda **_: write("ready"), weak=False)
    task_prerun.connect(begun, weak=False)


def main() -> None:
    """Plant, then be Celery."""
    plant()
    if TASKS in os.environ:
        write_tasks(Path(os.environ[TASKS]))
    from pylota.celery import app

    app.conf.update(json.loads(os.environ.get(CELERY, "{}")))
    app.start(sys.argv[1:])


if __name__ == "__main__":
    main()
