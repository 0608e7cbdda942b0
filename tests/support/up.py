"""One ``manage.py up`` of the tests, and every process that belongs to it."""

import re
import sys
import time
import uuid
from pathlib import Path

from tests.support.processes import ROOT, Processes, Running, until

MARK = "PYLOTA_MARK"


class Up:
    """One ``manage.py up``, and all that belongs to it, found by a mark."""

    def __init__(self, processes: Processes, **environment: object) -> None:
        self.processes = processes
        self.mark = uuid.uuid4().hex
        self.began = time.monotonic()
        self.running: Running = processes.run(
            "up",
            [sys.executable, str(ROOT / "manage.py"), "up", "--port", "0"],
            {
                MARK: self.mark,
                "PM_DATA_DIR": processes.folder / "data",
                "PM_WORKER_THREADS": 2,
                "PM_WEB_THREADS": 2,
                **environment,
            },
        )

    def wait_until_it_serves(self) -> str:
        """Return the URL that it printed once all was ready."""
        until(
            lambda: "stop    Ctrl-C" in self.output or not self.running.is_alive,
            seconds=60,
            what="the start",
        )
        found = re.search(
            r"web, worker, beat .* (http://127\.0\.0\.1:\d+)", self.output
        )
        assert found is not None, self.output
        return found[1]

    @property
    def output(self) -> str:
        """Return all that it wrote so far."""
        return self.running.output

    def members(self) -> dict[int, str]:
        """Return every living process that carries the mark, with its command."""
        wanted = f"{MARK}={self.mark}".encode()
        found = {}
        for entry in Path("/proc").iterdir():
            try:
                if wanted in (entry / "environ").read_bytes().split(b"\0"):
                    words = (entry / "cmdline").read_bytes().replace(b"\0", b" ")
                    found[int(entry.name)] = words.decode()
            except (OSError, ValueError):
                continue
        return found

    def member(self, words: str) -> int:
        """Return the process whose command has these words: the first one started."""
        return min(pid for pid, command in self.members().items() if words in command)
