"""When the next attempt is due, or that there is none: pure arithmetic."""

from collections.abc import Callable
from datetime import datetime, timedelta

from outbound.transports.base import RetryClass

GIVE_UP_AFTER = timedelta(hours=24)
"""A retry that would fall later than this after submit is not made."""

JITTER = 0.1


def _gentle(n: int) -> float:
    return min(10.0 * n, 60.0)


def _doubling(n: int) -> float:
    return min(60.0 * 2.0 ** (min(n, 20) - 1), 3600.0)


SECONDS: dict[RetryClass, Callable[[int], float]] = {
    RetryClass.RATE_LIMIT: _gentle,
    RetryClass.QUOTA: _doubling,
    RetryClass.PAUSED: _doubling,
    RetryClass.RELAY: _doubling,
}


def next_attempt(
    retry_class: RetryClass,
    *,
    n: int,
    now: datetime,
    submitted_at: datetime,
    spread: float,
    scale: float = 1.0,
) -> datetime | None:
    """Return when the n-th retry (from 1) is due, or None when the 24 hours are over.

    ``spread`` is a random number from -1 to 1: it moves the delay by up to a tenth.
    ``scale`` multiplies the delay (``PM_BACKOFF_SCALE``).
    """
    seconds = SECONDS[retry_class](n) * (1 + JITTER * spread) * scale
    due = now + timedelta(seconds=seconds)
    return due if due <= submitted_at + GIVE_UP_AFTER else None
