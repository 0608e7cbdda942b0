"""When the next attempt is due, in the four classes."""

from datetime import UTC, datetime, timedelta

import pytest

from outbound.backoff import GIVE_UP_AFTER, next_attempt
from outbound.transports.base import RetryClass

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)


def delay(retry_class: RetryClass, n: int, spread: float = 0.0) -> float:
    due = next_attempt(retry_class, n=n, now=NOW, submitted_at=NOW, spread=spread)
    assert due is not None
    return (due - NOW).total_seconds()


def test_a_rate_limit_waits_ten_seconds_more_each_time_up_to_a_minute() -> None:
    delays = [delay(RetryClass.RATE_LIMIT, n) for n in (1, 2, 3, 6, 7)]
    assert delays == [10, 20, 30, 60, 60]


@pytest.mark.parametrize(
    "retry_class", [RetryClass.QUOTA, RetryClass.PAUSED, RetryClass.RELAY]
)
def test_the_other_classes_double_from_a_minute_to_an_hour(
    retry_class: RetryClass,
) -> None:
    delays = [delay(retry_class, n) for n in (1, 2, 3, 6, 7, 40)]
    assert delays == [60, 120, 240, 1920, 3600, 3600]


def test_jitter_moves_a_delay_by_a_tenth_at_most() -> None:
    assert delay(RetryClass.RELAY, 1, spread=1) == pytest.approx(66)
    assert delay(RetryClass.RELAY, 1, spread=-1) == pytest.approx(54)


def test_a_retry_that_would_fall_after_a_day_is_not_made() -> None:
    submitted = NOW - GIVE_UP_AFTER + timedelta(seconds=60)
    within = next_attempt(
        RetryClass.RELAY, n=1, now=NOW, submitted_at=submitted, spread=0
    )
    after = next_attempt(
        RetryClass.RELAY, n=1, now=NOW, submitted_at=submitted, spread=0.1
    )
    assert within == NOW + timedelta(seconds=60)
    assert after is None


def test_a_scale_shortens_every_delay() -> None:
    due = next_attempt(
        RetryClass.RELAY, n=1, now=NOW, submitted_at=NOW, spread=0, scale=0.01
    )
    assert due == NOW + timedelta(seconds=0.6)
