"""When an event is tried again: thirteen attempts over about 72 hours; pure."""

from datetime import datetime, timedelta
from typing import Final

DELAYS: Final = (
    timedelta(seconds=30),
    timedelta(minutes=2),
    timedelta(minutes=10),
    timedelta(minutes=30),
    timedelta(hours=1),
    timedelta(hours=2),
    timedelta(hours=4),
    timedelta(hours=8),
    timedelta(hours=12),
    timedelta(hours=12),
    timedelta(hours=12),
    timedelta(hours=19),
)
"""What follows each failure (REST contract, section 6); after one more, nothing."""

JITTER: Final = 0.1


def next_attempt(
    failures: int, *, now: datetime, spread: float, scale: float = 1.0
) -> datetime | None:
    """Return when the attempt after this many failures is due; None when it is over.

    ``spread`` is a random number from -1 to 1: it moves the delay by up to a tenth.
    ``scale`` multiplies the delay (``PM_BACKOFF_SCALE``).
    """
    if failures > len(DELAYS):
        return None
    return now + DELAYS[failures - 1] * (1 + JITTER * spread) * scale
