"""Messages of this process that found no slot, for whoever frees one before they are
rung again.

Their rows are given back for five seconds all the same, so nothing is lost with the
process. Without this list a single busy relay would idle through most of those seconds.
"""

import threading
from typing import Final

MOST: Final = 1000

_lock = threading.Lock()
_ids: dict[str, None] = {}


def park(message_id: str) -> None:
    """Remember a message; the oldest is forgotten when there are too many."""
    with _lock:
        _ids[message_id] = None
        if len(_ids) > MOST:
            del _ids[next(iter(_ids))]


def unpark() -> str | None:
    """Return the message that has waited longest, or None."""
    with _lock:
        if not _ids:
            return None
        found = next(iter(_ids))
        del _ids[found]
        return found
