"""When a way out opens, how long it waits, and what counts: pure."""

from datetime import UTC, datetime, timedelta

import pytest

from delivery.statuses import AttemptResult
from mailboxes.statuses import Provider
from outbound.breaker import (
    Evidence,
    Standing,
    Way,
    due_behind,
    evidence_of,
    opened,
    wait_seconds,
    way_of,
)
from outbound.outcomes import outcome_of
from outbound.transports.base import (
    Accepted,
    Rejected,
    RejectReason,
    RetryClass,
    RetryLater,
    TransportResult,
    UncertainReason,
    Unknown,
)

NOW = datetime(2026, 11, 2, 9, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


@pytest.mark.parametrize(
    ("provider", "scope"),
    [
        (Provider.SMTP, "dom_1"),
        (Provider.CLOUDFLARE, "account"),
        (Provider.SES, "account"),
    ],
)
def test_a_relay_has_one_for_each_domain_and_a_provider_one_in_all(
    provider: Provider, scope: str
) -> None:
    assert way_of(provider, domain_id="dom_1") == Way(provider, scope)


def test_mail_that_never_leaves_has_none() -> None:
    assert way_of(Provider.SIMULATOR, domain_id="dom_1") is None


@pytest.mark.parametrize(
    ("result", "evidence"),
    [
        (Accepted("1"), Evidence.WORKS),
        (Rejected(RejectReason.PROVIDER_VALIDATION, "550", ""), Evidence.WORKS),
        (RetryLater(RetryClass.RATE_LIMIT, "429"), Evidence.WORKS),
        (RetryLater(RetryClass.RELAY, "421"), Evidence.WORKS),
        (RetryLater(RetryClass.RELAY, "connect_failed"), Evidence.NOTHING),
        (RetryLater(RetryClass.RELAY, "tls_failed"), Evidence.NOTHING),
        (RetryLater(RetryClass.RELAY, "connection_lost"), Evidence.NOTHING),
        (RetryLater(RetryClass.RELAY, "timeout"), Evidence.NOTHING),
        (RetryLater(RetryClass.RELAY, "call_broke"), Evidence.NOTHING),
        (RetryLater(RetryClass.PAUSED, "no_call"), Evidence.NOTHING),
        (RetryLater(RetryClass.RELAY, "claim_lost"), Evidence.NOTHING),
        (RetryLater(RetryClass.RELAY, "claim_too_old"), Evidence.NOTHING),
        (RetryLater(RetryClass.RELAY, "phase_not_recorded"), Evidence.NOTHING),
        (Unknown(UncertainReason.TIMEOUT, ""), Evidence.UNKNOWN),
        (Unknown(UncertainReason.CONNECTION_LOST, ""), Evidence.UNKNOWN),
    ],
)
def test_any_answer_is_evidence_and_a_call_without_one_is_none(
    result: TransportResult, evidence: Evidence
) -> None:
    outcome = outcome_of(result, queued=["jo@example.net"])

    assert evidence_of(outcome) == evidence
    assert (outcome.result == AttemptResult.UNCERTAIN) == (evidence == Evidence.UNKNOWN)


def open_after(counted: Standing, *, is_probe: bool = False) -> Standing | None:
    return opened(counted, is_probe=is_probe, now=NOW, first_wait=300)


def test_the_third_in_a_row_opens_it_for_five_minutes() -> None:
    assert open_after(Standing(unknowns=1)) is None
    assert open_after(Standing(unknowns=2)) is None
    assert open_after(Standing(unknowns=3)) == Standing(3, 1, NOW + 5 * MINUTE)


def test_calls_that_were_under_way_do_not_open_it_again_but_a_probe_does() -> None:
    standing = Standing(unknowns=7, openings=1, probe_at=NOW + MINUTE)

    assert open_after(standing) is None
    assert open_after(standing, is_probe=True) == Standing(7, 2, NOW + 10 * MINUTE)


def test_the_wait_doubles_up_to_an_hour_and_is_scaled() -> None:
    waits = [wait_seconds(n, first_wait=300) / 60 for n in (1, 2, 3, 4, 5, 6, 5000)]
    assert waits == [5, 10, 20, 40, 60, 60, 60]

    scaled = opened(
        Standing(unknowns=3), is_probe=False, now=NOW, first_wait=300, scale=0.01
    )
    assert scaled is not None
    assert scaled.probe_at == NOW + timedelta(seconds=3)


@pytest.mark.parametrize("spread", [0.0, 0.5, 1.0])
def test_who_waits_asks_again_when_the_probe_may_go_and_not_before(
    spread: float,
) -> None:
    due = due_behind(NOW + 10 * MINUTE, now=NOW, submitted_at=NOW, spread=spread)

    assert due == NOW + 10 * MINUTE + spread * MINUTE


def test_who_waits_behind_a_probe_that_is_due_asks_at_once() -> None:
    past = NOW - MINUTE

    assert due_behind(past, now=NOW, submitted_at=NOW, spread=1) == NOW


def test_nobody_waits_longer_than_a_day() -> None:
    submitted = NOW - timedelta(hours=24) + 10 * MINUTE

    assert due_behind(NOW + 10 * MINUTE, now=NOW, submitted_at=submitted, spread=0)
    late = due_behind(NOW + 11 * MINUTE, now=NOW, submitted_at=submitted, spread=0)
    assert late is None
