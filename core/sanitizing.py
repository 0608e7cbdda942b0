"""Sanitising with an end: in a process of its own, which is stopped if it is too slow.

HTML that means ill costs minutes for each MiB, and holds the interpreter all the while.
So no thread of web or worker does it: a child does, with a limit of CPU time and of
memory, and with nothing in its environment that hostile input could be after.
"""

import json
import os
import resource
import subprocess
import sys
import threading
from pathlib import Path
from typing import Final

from core.errors import Unavailable
from core.sanitized import Sanitized

CPU_SECONDS = 8
"""What one body may cost; by it nothing is decided but whether there is a copy."""
WALL_SECONDS = 20.0
"""How long a caller waits, on a machine that has other things to do."""
MEMORY: Final = 2 * 2**30
AT_ONCE: Final = 2
"""Children of one process; whoever finds no place soon is asked to come again."""
PLACE_SECONDS = 2.0

_ROOT: Final = Path(__file__).resolve().parent.parent
_places = threading.BoundedSemaphore(AT_ONCE)


class TooCostly(Exception):
    """The HTML takes more time or memory than any mail is worth: always, not now."""


def sanitize_apart(html: str) -> Sanitized:
    """Return what ``core.sanitize.sanitize`` does, within 22 s.

    Raises TooCostly for HTML that uses up its limits, which it would do again, and
    Unavailable when the machine is too busy to tell.
    """
    if not _places.acquire(timeout=PLACE_SECONDS):
        raise Unavailable("Other bodies are being sanitised.")
    try:
        made = _run(html.encode("utf-8", "surrogatepass"))
    finally:
        _places.release()
    return Sanitized(**json.loads(made))


def _run(page: bytes) -> bytes:
    path = os.pathsep.join(filter(None, sys.path))
    try:
        done = subprocess.run(  # noqa: S603  our own command, no shell
            [sys.executable, "-m", "core.sanitizing", str(CPU_SECONDS)],
            input=page,
            capture_output=True,
            timeout=WALL_SECONDS,
            cwd=_ROOT,
            env={"PYTHONPATH": path, "PYTHONUTF8": "1"},
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Unavailable("Sanitising took too long.") from None
    except OSError as error:  # no process or memory left for a child
        raise Unavailable("Sanitising could not begin.") from error
    if done.returncode:  # stopped by a limit, or by input that nobody foresaw
        raise TooCostly(f"sanitising ended with {done.returncode}")
    return done.stdout


def main() -> None:
    """Be the child: HTML comes in, JSON goes out, and the kernel keeps the limits."""
    from core.sanitize import sanitize  # its libraries are for the child alone

    seconds = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    made = sanitize(sys.stdin.buffer.read().decode("utf-8", "surrogatepass"))
    shown = {
        "html": made.html,
        "has_hidden_text": made.has_hidden_text,
        "is_truncated": made.is_truncated,
    }
    sys.stdout.write(json.dumps(shown))


if __name__ == "__main__":
    main()
