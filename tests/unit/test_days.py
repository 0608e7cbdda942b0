"""A tenant's own day: every zone, clocks that skip midnight, and changes of zone."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import available_timezones

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quota.days import TenantDays, is_zone

ZONES = sorted(zone for zone in available_timezones() if is_zone(zone))
instants = st.datetimes(
    datetime(2000, 1, 1),  # noqa: DTZ001  hypothesis adds the zone
    datetime(2037, 12, 31),  # noqa: DTZ001
    timezones=st.just(UTC),
)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("zone", "now", "day", "resets_at"),
    [
        ("UTC", "2026-03-01T23:59:59.999", date(2026, 3, 1), "2026-03-02T00:00"),
        ("UTC", "2026-03-02T00:00", date(2026, 3, 2), "2026-03-03T00:00"),
        # a day of 23 hours, and one of 25
        ("Europe/Berlin", "2026-03-28T23:00", date(2026, 3, 29), "2026-03-29T22:00"),
        ("Europe/Berlin", "2026-10-24T22:00", date(2026, 10, 25), "2026-10-25T23:00"),
        ("Asia/Kathmandu", "2026-01-01T18:15", date(2026, 1, 2), "2026-01-02T18:15"),
        (
            "Pacific/Kiritimati",
            "2026-01-01T10:00",
            date(2026, 1, 2),
            "2026-01-02T10:00",
        ),
        # midnight does not exist: the clocks go from 23:59:59 to 01:00
        (
            "America/Sao_Paulo",
            "2018-11-03T12:00",
            date(2018, 11, 3),
            "2018-11-04T03:00",
        ),
        ("Asia/Beirut", "2022-03-26T12:00", date(2022, 3, 26), "2022-03-26T22:00"),
        ("America/Havana", "2026-03-07T12:00", date(2026, 3, 7), "2026-03-08T05:00"),
        # the hour before midnight comes twice, or the hour after it
        (
            "America/Sao_Paulo",
            "2018-02-18T01:30",
            date(2018, 2, 17),
            "2018-02-18T03:00",
        ),
        (
            "America/Sao_Paulo",
            "2018-02-18T02:30",
            date(2018, 2, 17),
            "2018-02-18T03:00",
        ),
        ("America/Havana", "2026-11-01T03:00", date(2026, 10, 31), "2026-11-01T04:00"),
        ("America/Havana", "2026-11-01T05:30", date(2026, 11, 1), "2026-11-02T05:00"),
        # a whole day that never was
        ("Pacific/Apia", "2011-12-30T09:00", date(2011, 12, 29), "2011-12-30T10:00"),
    ],
)
def test_the_next_day_begins_at_the_first_instant_of_its_date(
    zone: str, now: str, day: date, resets_at: str
) -> None:
    days = TenantDays(zone)

    assert days.day(at(now)) == day
    assert days.resets_at(at(now)) == at(resets_at)


@given(st.sampled_from(ZONES), instants)
def test_in_every_zone_the_date_changes_at_the_reset_and_not_before(
    zone: str, now: datetime
) -> None:
    days = TenantDays(zone)
    resets_at = days.resets_at(now)

    assert now < resets_at <= now + timedelta(hours=50)
    assert days.day(resets_at - timedelta(microseconds=1)) == days.day(now)
    assert days.day(resets_at) > days.day(now)


def test_a_change_of_zone_waits_for_the_old_zones_next_midnight() -> None:
    # Given noon in Berlin, whose next midnight is 23:00 in UTC
    now = at("2026-01-10T11:00")
    days = TenantDays("Europe/Berlin").changed_to("America/New_York", now=now)

    # Then Berlin counts until then, and New York from then on
    assert days == TenantDays(
        "Europe/Berlin", "America/New_York", at("2026-01-10T23:00")
    )
    assert days.zone_name(at("2026-01-10T22:59:59")) == "Europe/Berlin"
    assert days.zone_name(at("2026-01-10T23:00")) == "America/New_York"


def test_going_west_the_same_date_goes_on_and_brings_nothing_new() -> None:
    now = at("2026-01-10T11:00")
    days = TenantDays("Europe/Berlin").changed_to("America/New_York", now=now)

    assert days.day(at("2026-01-10T23:00")) == date(2026, 1, 10)
    assert days.resets_at(now) == at("2026-01-11T05:00")


def test_going_east_the_date_changes_with_the_zone() -> None:
    now = at("2026-01-10T17:00")  # noon in New York, whose next midnight is 05:00
    days = TenantDays("America/New_York").changed_to("Asia/Tokyo", now=now)

    assert days.resets_at(now) == at("2026-01-11T05:00")
    assert days.day(at("2026-01-11T05:00")) == date(2026, 1, 11)
    assert days.resets_at(at("2026-01-11T05:00")) == at("2026-01-11T15:00")


def test_a_second_change_replaces_the_one_still_to_come() -> None:
    now = at("2026-01-10T11:00")
    once = TenantDays("Europe/Berlin").changed_to("Asia/Tokyo", now=now)

    twice = once.changed_to("America/New_York", now=now + timedelta(hours=1))

    assert twice.next_timezone == "America/New_York"
    assert twice.next_from == once.next_from
    assert twice.changed_to("Europe/Berlin", now=now) == TenantDays("Europe/Berlin")


def test_a_change_after_one_that_has_taken_effect_starts_from_that_zone() -> None:
    now = at("2026-01-10T11:00")
    once = TenantDays("Europe/Berlin").changed_to("Asia/Tokyo", now=now)

    later = once.changed_to("Europe/Berlin", now=at("2026-01-12T00:00"))

    assert later == TenantDays("Asia/Tokyo", "Europe/Berlin", at("2026-01-12T15:00"))


@given(st.sampled_from(ZONES), st.sampled_from(ZONES), instants)
def test_no_change_of_zone_begins_a_day_before_the_old_zones_midnight(
    old: str, new: str, now: datetime
) -> None:
    before = TenantDays(old)
    changed = before.changed_to(new, now=now)

    assert changed.day(now) == before.day(now)
    assert changed.resets_at(now) >= before.resets_at(now)
    assert changed.day(changed.resets_at(now)) != changed.day(now)


@given(st.sampled_from(ZONES), st.sampled_from(ZONES), instants)
def test_the_row_of_a_tenant_holds_all_of_it(old: str, new: str, now: datetime) -> None:
    days = TenantDays(old).changed_to(new, now=now)

    assert TenantDays.of_row(days.timezone, days.tz_next()) == days
    assert TenantDays(old).tz_next() is None


@pytest.mark.parametrize(
    "name", ["", "Mars/Olympus", "../etc/passwd", "/etc/localtime", "x\0"]
)
def test_a_zone_that_nobody_knows_is_refused_and_counts_as_utc(name: str) -> None:
    now = at("2026-01-10T23:30")

    assert not is_zone(name)
    with pytest.raises(ValueError, match="zone"):
        TenantDays().changed_to(name, now=now)
    assert TenantDays(name).day(now) == date(2026, 1, 10)
