"""Ids sort by time, and a time has an id before all of its own."""

from datetime import UTC, datetime, timedelta

from core.ids import first_id, is_id, new_id


def test_the_first_id_of_a_time_stands_before_all_that_are_made_from_then_on() -> None:
    now = datetime.now(UTC)
    made = new_id("msg")

    assert is_id(first_id("msg", now), "msg")
    assert first_id("msg", now - timedelta(milliseconds=1)) < made
    assert made < first_id("msg", now + timedelta(seconds=60))


def test_the_first_ids_of_times_sort_as_the_times_do() -> None:
    start = datetime(2026, 11, 30, tzinfo=UTC)
    ids = [first_id("msg", start + timedelta(days=7, hours=n)) for n in range(500)]

    assert ids == sorted(set(ids))
