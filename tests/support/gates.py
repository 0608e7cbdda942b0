"""Gates at named points of other processes: who comes waits until it is opened."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from core.database import fetch_one
from tests.support.processes import until

WAITING: Final = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    " AND wait_event_type = 'Lock'"
)
WRITING: Final = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    " AND xact_start IS NOT NULL AND pid <> pg_backend_pid()"
)


@dataclass(frozen=True, slots=True)
class Gate:
    """One gate, as a test sees it; ``plan`` is what a process is given to plant."""

    folder: Path
    point: str
    name: str = "gate"

    @property
    def plan(self) -> str:
        """Return the part of ``PM_TEST_PLANTED`` that puts this gate up."""
        return f"{self.point}=mark:{self._came}+await:{self._open}"

    @property
    def came(self) -> list[str]:
        """Return the process id of whoever came, once for each time."""
        return self._came.read_text().split() if self._came.exists() else []

    def wait(self, times: int = 1) -> None:
        """Return once so many have come; fail by name when they never do."""
        until(lambda: len(self.came) >= times, what=f"{times} at {self.point}")

    def open(self) -> None:
        """Let everybody through, also who comes later."""
        self._open.touch()

    @property
    def _came(self) -> Path:
        return self.folder / f"{self.name}-{self.point}-came"

    @property
    def _open(self) -> Path:
        return self.folder / f"{self.name}-{self.point}-open"


def wait_for_a_lock_that_is_waited_for() -> None:
    """Return once a session of this database waits for another one's lock."""
    until(lambda: fetch_one(WAITING) != (0,), what="a session that waits for a lock")


def wait_for_the_end_of_every_transaction() -> None:
    """Return once no other session of this database has a transaction open.

    Of a process that was killed, the server may have a COMMIT still in hand.
    """
    until(lambda: fetch_one(WRITING) == (0,), what="the end of every transaction")
