"""When a webhook is tried again, and what its failures do to an endpoint."""

from datetime import UTC, datetime, timedelta

import pytest

from webhooks.judging import Health, after
from webhooks.outcomes import Outcome, error_of
from webhooks.schedule import next_attempt
from webhooks.statuses import AttemptError, DisabledReason

NOW = datetime(2026, 11, 2, 9, 15, tzinfo=UTC)
FAILED = Outcome(AttemptError.STATUS_5XX, 500)
SECONDS = [
    *(30, 120, 600, 1800, 3600, 7200, 14400, 28800, 43200, 43200, 43200, 68400),
]


@pytest.mark.parametrize(("failures", "seconds"), [*enumerate(SECONDS, start=1)])
def test_each_failure_is_followed_by_its_wait_give_or_take_a_tenth(
    failures: int, seconds: int
) -> None:
    waits = [
        next_attempt(failures, now=NOW, spread=spread) for spread in (-1.0, 0.0, 1.0)
    ]

    expected = [NOW + timedelta(seconds=seconds * part) for part in (0.9, 1.0, 1.1)]
    assert waits == expected


def test_after_the_thirteenth_failure_nothing_follows() -> None:
    assert next_attempt(13, now=NOW, spread=0) is None
    assert 70 < sum(SECONDS) / 3600 < 72


def test_waits_are_scaled() -> None:
    due = next_attempt(1, now=NOW, spread=0, scale=0.01)

    assert due == NOW + timedelta(seconds=0.3)


@pytest.mark.parametrize(
    ("status", "error"),
    [
        *((code, None) for code in (200, 201, 204, 299)),
        *((code, AttemptError.REDIRECT) for code in (300, 301, 302, 307, 308)),
        *((code, AttemptError.STATUS_4XX) for code in (400, 404, 409, 429, 499)),
        (410, AttemptError.STATUS_410),
        *((code, AttemptError.STATUS_5XX) for code in (500, 503, 599, 999)),
    ],
)
def test_nothing_but_a_2xx_is_a_success(
    status: int, error: AttemptError | None
) -> None:
    assert error_of(status) is error


def test_a_gone_receiver_is_switched_off_at_once() -> None:
    found = after(Health(), Outcome(AttemptError.STATUS_410, 410), now=NOW)

    assert found == Health(1, NOW, DisabledReason.GONE)


@pytest.mark.parametrize(
    ("failures", "hours", "reason"),
    [
        (99, 24, DisabledReason.FAILING),
        (150, 24, DisabledReason.FAILING),
        (98, 48, None),
        (99, 23.9, None),
        (5000, 23.9, None),
    ],
)
def test_a_hundred_failures_in_a_row_over_a_day_switch_an_endpoint_off(
    failures: int, hours: float, reason: DisabledReason | None
) -> None:
    since = NOW - timedelta(hours=hours)

    found = after(Health(failures, since), FAILED, now=NOW)

    assert found == Health(failures + 1, since, reason)


def test_a_success_forgets_the_failures_before_it() -> None:
    since = NOW - timedelta(days=3)

    assert after(Health(99, since), Outcome(), now=NOW) == Health()


@pytest.mark.parametrize(
    "error",
    [
        AttemptError.SECRET_UNAVAILABLE,
        AttemptError.EVENT_UNAVAILABLE,
        AttemptError.ENDPOINT_DISABLED,
    ],
)
def test_what_no_receiver_had_a_part_in_does_not_count_against_it(
    error: AttemptError,
) -> None:
    before = Health(99, NOW - timedelta(days=3))

    assert after(before, Outcome(error), now=NOW) == before


@pytest.mark.parametrize("reason", [DisabledReason.MANUAL, DisabledReason.URL_CHANGED])
def test_what_is_off_keeps_its_reason(reason: DisabledReason) -> None:
    before = Health(99, NOW - timedelta(days=3), reason)

    found = after(before, Outcome(AttemptError.STATUS_410, 410), now=NOW)

    assert found.disabled_reason is reason
