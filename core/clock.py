"""The clock that processes agree on: the database's.

Instants that two processes compare come from here, asked after the lock that decides
(architecture section 3). A host's own clock only measures durations.
"""

from datetime import UTC, datetime, timedelta

from core.database import fetch_one
from core.elapsed import elapsed_clock as elapsed_clock

offset = timedelta(0)
"""Added to every instant; moved by tests only."""


def database_now() -> datetime:
    """Return the database's clock, in UTC, cut to milliseconds."""
    row = fetch_one("SELECT clock_timestamp()")
    assert row is not None  # noqa: S101  a SELECT without FROM has one row
    return to_milliseconds(row[0] + offset)


def to_milliseconds(instant: datetime) -> datetime:
    """Cut an aware instant to milliseconds, in UTC: the form that is stored."""
    instant = instant.astimezone(UTC)
    return instant.replace(microsecond=instant.microsecond // 1000 * 1000)
