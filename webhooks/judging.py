"""What an attempt says of its endpoint: pure (REST contract, section 6)."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from webhooks.outcomes import Outcome
from webhooks.statuses import AttemptError, DisabledReason

MOST_FAILURES: Final = 100
FAILING_FOR: Final = timedelta(hours=24)
"""So many failures in a row, over so long a time, switch an endpoint off."""

OURS: Final = frozenset(
    {
        AttemptError.SECRET_UNAVAILABLE,
        AttemptError.EVENT_UNAVAILABLE,
        AttemptError.ENDPOINT_DISABLED,
    }
)
"""Failures that no receiver had a part in: they do not count against it."""


@dataclass(frozen=True, slots=True)
class Health:
    """How an endpoint has fared: failures since the last success, and why it is off."""

    failures: int = 0
    failing_since: datetime | None = None
    disabled_reason: DisabledReason | None = None


def after(health: Health, outcome: Outcome, *, now: datetime) -> Health:
    """Return how an endpoint stands after one more attempt.

    What is disabled already keeps its reason.
    """
    if outcome.is_success:
        return replace(health, failures=0, failing_since=None)
    if outcome.error in OURS:
        return health
    counted = replace(
        health,
        failures=health.failures + 1,
        failing_since=health.failing_since or now,
    )
    if health.disabled_reason is not None:
        return counted
    return replace(counted, disabled_reason=_reason(counted, outcome, now=now))


def _reason(
    health: Health, outcome: Outcome, *, now: datetime
) -> DisabledReason | None:
    if outcome.error is AttemptError.STATUS_410:
        return DisabledReason.GONE
    since = health.failing_since
    if health.failures >= MOST_FAILURES and since is not None:
        return DisabledReason.FAILING if now - since >= FAILING_FOR else None
    return None
