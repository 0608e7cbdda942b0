"""The time, as a call sees it."""

import random
import time
from datetime import UTC, datetime


class Clock:
    """The time, and chance; hand in another one to test without waiting."""

    def monotonic(self) -> float:
        """Return seconds from a clock that never goes back."""
        return time.monotonic()

    def now(self) -> datetime:
        """Return the instant, with a time zone."""
        return datetime.now(UTC)

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)

    def spread(self) -> float:
        """Return a random number from 0 to 1."""
        return random.random()  # noqa: S311  it keeps clients apart, no secret
