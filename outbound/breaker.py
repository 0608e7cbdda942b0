"""When a way out is closed for a while, and who may try it: pure.

Three unknown outcomes in a row on one way open its breaker. Messages then wait, and
nobody calls, for 5 minutes, doubling to an hour; after each wait one goes as a probe
(architecture, section 4).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Final

from delivery.statuses import AttemptResult
from mailboxes.statuses import Provider
from outbound.backoff import GIVE_UP_AFTER, JITTER
from outbound.outcomes import Outcome
from outbound.transports.base import PROVIDER_AWAY

OPENS_AT: Final = 3
"""Unknown outcomes in a row."""

LONGEST_WAIT: Final = 3600.0

ACCOUNT: Final = "account"
"""The scope of a provider whose one account carries every domain's mail."""

NO_CALL: Final = frozenset(
    {"no_call", "call_broke", "claim_lost", "claim_too_old", "phase_not_recorded"}
)
"""Codes of attempts that ended for a reason of our own: they tell of no transport."""

NO_REPLY: Final = frozenset(
    {
        *("host_refused", "lookup_failed", "connect_failed", "tls_failed"),
        *("connection_lost", "timeout", "deadline"),
    }
)
"""Codes of calls to a relay that was not there, or left before it had the mail: nothing
was sent, and nothing shows that it works again."""


@dataclass(frozen=True, slots=True)
class Way:
    """What one breaker guards: a relay of one domain, or a provider's account."""

    provider: Provider
    scope: str

    @property
    def name(self) -> str:
        """Return the words that an alert names it by."""
        return f"{self.provider}:{self.scope}"


@dataclass(frozen=True, slots=True)
class Standing:
    """The state of one way: ``unknowns`` in a row, and how often it has opened since.

    While it is open, ``probe_at`` is when the next probe may go.
    """

    unknowns: int = 0
    openings: int = 0
    probe_at: datetime | None = None


class Evidence(Enum):
    """What the end of a call says of the way that it took."""

    WORKS = auto()
    UNKNOWN = auto()
    NOTHING = auto()


def way_of(provider: Provider, *, domain_id: str) -> Way | None:
    """Return what the breaker of a call is; None for one that cannot be in doubt."""
    scopes: Mapping[Provider, str] = {
        Provider.SMTP: domain_id,
        Provider.CLOUDFLARE: ACCOUNT,
        Provider.SES: ACCOUNT,
    }
    return Way(provider, scopes[provider]) if provider in scopes else None


def evidence_of(outcome: Outcome) -> Evidence:
    """Return what an outcome says: any definite answer shows that the way works.

    A call that had no answer shows nothing, or a relay that is away now and loses mail
    now would never be closed. A provider that does not answer a probe's question is
    away still: nothing was sent, and the way stays closed for longer.
    """
    if outcome.result == AttemptResult.UNCERTAIN or outcome.code == PROVIDER_AWAY:
        return Evidence.UNKNOWN
    tells_nothing = outcome.code in NO_CALL | NO_REPLY
    return Evidence.NOTHING if tells_nothing else Evidence.WORKS


def opened(
    counted: Standing,
    *,
    is_probe: bool,
    now: datetime,
    first_wait: float,
    scale: float = 1.0,
) -> Standing | None:
    """Return the breaker as one more unknown outcome opens it; None if it does not.

    The outcome is in ``counted`` already. Of the calls that were under way when it
    opened, none opens it again; a probe does.
    """
    is_open = counted.openings > 0
    if counted.unknowns < OPENS_AT or (is_open and not is_probe):
        return None
    openings = counted.openings + 1
    seconds = wait_seconds(openings, first_wait=first_wait) * scale
    probe_at = now + timedelta(seconds=seconds)
    return replace(counted, openings=openings, probe_at=probe_at)


def wait_seconds(openings: int, *, first_wait: float) -> float:
    """Return how long nobody calls, the n-th time in a row that a breaker opens."""
    return min(first_wait * 2.0 ** (min(openings, 20) - 1), LONGEST_WAIT)


def due_behind(
    probe_at: datetime, *, now: datetime, submitted_at: datetime, spread: float
) -> datetime | None:
    """Return when a message that found its way closed asks again; never before a probe.

    None when the 24 hours are over by then: nothing waits for ever. ``spread`` is a
    random number from 0 to 1 that keeps them from asking all at once.
    """
    wait = max(probe_at - now, timedelta(0))
    due = now + wait * (1 + JITTER * spread)
    return due if due <= submitted_at + GIVE_UP_AFTER else None
