"""The stretch of time that a monthly allowance lasts. Pure.

Calendar months in UTC, unless a period was begun at another instant: it then goes on
from month to month on that day, or on the month's last (quota, part A6).
"""

from calendar import monthrange
from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True, slots=True)
class Period:
    """From ``start`` to just before ``end``."""

    start: datetime
    end: datetime

    @classmethod
    def month_of(cls, now: datetime) -> "Period":
        """Return the calendar month of an instant, in UTC."""
        first = now.astimezone(UTC).replace(
            day=1, hour=0, minute=0, second=0, microsecond=0
        )
        return cls(first, month_after(first))

    @classmethod
    def begun(cls, start: datetime, *, is_paid: bool) -> "Period":
        """Return the period that begins at an instant.

        One that is paid for lasts a month; any other ends with the calendar month.
        """
        return cls(start, month_after(start) if is_paid else cls.month_of(start).end)

    def at(self, now: datetime) -> "Period":
        """Return the period of an instant: this one, or a later one if it is over."""
        found = self
        while now >= found.end:
            found = Period(found.end, month_after(found.end))
        return found


def month_after(instant: datetime) -> datetime:
    """Return the same time of day one calendar month later."""
    year, month = instant.year + instant.month // 12, instant.month % 12 + 1
    day = min(instant.day, monthrange(year, month)[1])
    return instant.replace(year=year, month=month, day=day)
