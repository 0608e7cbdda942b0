"""Periods: calendar months in UTC, and months from any other day."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quota.periods import Period, month_after

instants = st.integers(min_value=946_684_800, max_value=4_102_444_800).map(
    lambda seconds: datetime.fromtimestamp(seconds, UTC)
)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


@given(instants)
def test_an_instant_lies_in_its_month(now: datetime) -> None:
    month = Period.month_of(now)

    assert month.start <= now < month.end
    assert (month.start.day, month.end.day) == (1, 1)


@given(instants, instants)
def test_a_period_goes_on_without_a_gap(start: datetime, now: datetime) -> None:
    first = Period(start, month_after(start))

    found = first.at(now)

    assert now < found.end
    assert found == first or (found.start >= first.end and now >= found.start)


@pytest.mark.parametrize(
    ("instant", "later"),
    [
        ("2026-01-31T10:00:00Z", "2026-02-28T10:00:00Z"),
        ("2028-01-31T10:00:00Z", "2028-02-29T10:00:00Z"),
        ("2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z"),
        ("2026-11-30T00:00:00Z", "2026-12-30T00:00:00Z"),
    ],
)
def test_a_month_later_is_the_same_day_or_the_months_last(
    instant: str, later: str
) -> None:
    assert month_after(at(instant)) == at(later)


def test_a_month_begins_with_its_first_instant_in_utc() -> None:
    month = Period.month_of(at("2026-12-01T00:30:00+01:00"))

    assert month == Period(at("2026-11-01T00:00:00Z"), at("2026-12-01T00:00:00Z"))
