"""One deployment for each data folder: a lock that ends with its holder."""

import os
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

from pylota.embedded import locks

NAME = "up.lock"


class Place:
    """A data folder, for one ``up`` or ``demo`` at a time.

    The kernel drops the lock with its holder, however that ends; what the file says
    counts only while it is held.
    """

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / NAME
        self._handle: int | None = None

    def take(self) -> None:
        """Take the lock; raises ImproperlyConfigured, which names the other holder."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._handle = locks.take(self._path)
        if self._handle is None:
            raise ImproperlyConfigured(
                f"Pylota already runs here ({self._path.read_text() or 'starting'}). "
                "Stop it, or set PM_DATA_DIR."
            )
        os.ftruncate(self._handle, 0)  # an earlier holder's words

    def tell(self, url: str) -> None:
        """Write down, for whoever comes second, who serves here and where."""
        if self._handle is not None:
            os.pwrite(self._handle, f"pid {os.getpid()}, {url}".encode(), 0)

    def leave(self) -> None:
        """Give the lock back if it is ours; safe to call twice."""
        if self._handle is not None:
            locks.release(self._handle)
            self._handle = None
