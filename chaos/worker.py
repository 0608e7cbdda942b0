"""A worker process of the run: Celery's own command, after what is laid over it.

``python -m chaos.worker worker …``: Celery's arguments follow. ``CHAOS_COPIED`` names a
file: with one ring of each message its task is published again, at once and once more
while its call may be under way, and a line is written for each copy; beside it goes how
many tasks wait. That is for ``memory://``, which nobody else can look into.
"""

import os
import sys
import time
from pathlib import Path
from threading import Thread, Timer
from typing import Any, Final

COPIED: Final = "CHAOS_COPIED"
LATER: Final = (0.0, 0.15)
"""When each copy follows its ring, in seconds."""


def copy_rings(file: Path) -> None:
    """Let this process's broker hand out every message's task more than once.

    Each message is copied at one of its rings only: every start rings all that wait.
    """
    from outbound import dispatch

    send = dispatch._send
    known = set(file.read_text().splitlines()) if file.exists() else set()

    def copy(queue: Any, public_id: str) -> None:
        send(queue, public_id)
        with file.open("a") as lines:
            lines.write(f"{public_id}\n")

    def send_and_copy(queue: Any, public_id: str) -> None:
        send(queue, public_id)
        if queue is dispatch.MESSAGES and public_id not in known:
            known.add(public_id)
            for seconds in LATER:
                timer = Timer(seconds, copy, [queue, public_id])
                timer.daemon = True
                timer.start()

    dispatch._send = send_and_copy


def write_lengths(copies: Path) -> None:
    """Write down, twice a second, how many messages' tasks wait in this process."""
    from kombu.transport.memory import Channel

    from chaos.broker import MEASURED_EVERY, NAME, lengths_file

    def measure() -> None:
        while True:
            time.sleep(MEASURED_EVERY)
            queue = Channel.queues.get(NAME)
            waiting = queue.qsize() if queue is not None else 0
            copied = len(copies.read_text().splitlines()) if copies.exists() else 0
            with lengths_file(copies).open("a") as lines:
                lines.write(f"{time.monotonic()} {waiting} {copied}\n")

    Thread(target=measure, name="lengths", daemon=True).start()


def main() -> None:
    """Break and copy what is to be, then be Celery."""
    import django

    from pylota.celery import app

    django.setup()
    from chaos.mutants import mutate

    mutate()
    if file := os.environ.get(COPIED):
        copy_rings(Path(file))
        write_lengths(Path(file))
    app.start(sys.argv[1:])


if __name__ == "__main__":
    main()
