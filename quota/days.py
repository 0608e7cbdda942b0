"""A tenant's own days: which one it is, and when the next begins. Pure.

Daily caps are a promise about the tenant's local day; a change of zone waits for the
old zone's next midnight (quota, part A8; outbound tables, section 10).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

UTC_NAME: Final = "UTC"


@dataclass(frozen=True, slots=True)
class TenantDays:
    """A tenant's time zone, and the one that takes its place at an instant, if any."""

    timezone: str = UTC_NAME
    next_timezone: str | None = None
    next_from: datetime | None = None

    @classmethod
    def of_row(cls, timezone: str, tz_next: Mapping[str, Any] | None) -> "TenantDays":
        """Return the days of a tenant's row (``timezone`` and ``tz_next``)."""
        if tz_next is None:
            return cls(timezone)
        return cls(
            timezone, tz_next["timezone"], datetime.fromisoformat(tz_next["from"])
        )

    def tz_next(self) -> dict[str, str] | None:
        """Return the column that keeps a change that is still to come."""
        if self.next_timezone is None or self.next_from is None:
            return None
        return {"timezone": self.next_timezone, "from": self.next_from.isoformat()}

    def zone_name(self, now: datetime) -> str:
        """Return the zone that counts at an instant."""
        if self.next_timezone and self.next_from and now >= self.next_from:
            return self.next_timezone
        return self.timezone

    def day(self, now: datetime) -> date:
        """Return the local date at an instant."""
        return now.astimezone(_zone(self.zone_name(now))).date()

    def resets_at(self, now: datetime) -> datetime:
        """Return when the local date next becomes another one, in UTC.

        The first instant of the next local date, which is not midnight where the clocks
        skip it; a change of zone that is due earlier and brings another date counts.
        """
        if self.next_from is not None and now < self.next_from:
            if self.day(self.next_from) != self.day(now):
                return self.next_from.astimezone(UTC)
            return _next_day(self.next_from, self.zone_name(self.next_from))
        return _next_day(now, self.zone_name(now))

    def changed_to(self, wanted: str, *, now: datetime) -> "TenantDays":
        """Return the days after a change of zone was asked for.

        It takes effect at the next midnight of the zone that counts now, so that it
        never begins a day early; asking for that zone drops a change still to come.
        Raises ValueError for a zone that nobody knows.
        """
        if not is_zone(wanted):
            raise ValueError("no such IANA time zone")
        current = self.zone_name(now)
        if wanted == current:
            return TenantDays(current)
        return TenantDays(current, wanted, _next_day(now, current))


def is_zone(name: str) -> bool:
    """Tell whether a name is a time zone of the IANA database."""
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def _next_day(now: datetime, zone_name: str) -> datetime:
    zone = _zone(zone_name)
    today = now.astimezone(zone).date()
    # in a gap the offset before it counts (PEP 495, fold 0): the gap's very instant
    midnight = datetime.combine(today + timedelta(days=1), time(), zone)
    return midnight.astimezone(UTC)


def _zone(name: str) -> ZoneInfo:
    """Return a zone; one that the database of this host does not know counts as UTC."""
    return ZoneInfo(name if is_zone(name) else UTC_NAME)
