"""Daily caps: how many messages an identity and its tenant may send in a day. Pure.

The page, "TenantQuota"; quota, part A8. The unit is an accepted message, however many
recipients it has.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum
from typing import Any, Final

from quota.allowances import PlannedAccount
from quota.days import TenantDays

WARN_AT: Final = (80, 100)
"""Percent of a cap at which ``quota.warning`` is raised, once a scope and day."""
SYSTEM_CAP: Final = 50_000
"""What the system identity may send in a day; no tenant cap binds it."""
TENANT_METRIC: Final = "sends"


class Scope(StrEnum):
    """Whose cap it is."""

    IDENTITY = "identity"
    TENANT = "tenant"


@dataclass(frozen=True, slots=True)
class Caps:
    """The caps of one send; without a tenant cap the tenant's count is left alone."""

    identity_id: str
    identity: int
    tenant: int | None

    def metrics(self) -> dict[str, tuple[Scope, int]]:
        """Return the counters that the send raises, each with its scope and cap."""
        found = {identity_metric(self.identity_id): (Scope.IDENTITY, self.identity)}
        if self.tenant is not None:
            found[TENANT_METRIC] = (Scope.TENANT, self.tenant)
        return found


@dataclass(frozen=True, slots=True)
class QuotaWarning:
    """A counter that reached a part of its cap for the first time on its day."""

    scope: Scope
    percent: int
    used: int
    limit: int

    def event_data(self) -> dict[str, Any]:
        """Return the data of ``quota.warning`` (REST contract, section 5.2)."""
        return {
            "metric": TENANT_METRIC,
            "used": self.used,
            "limit": self.limit,
            "scope": str(self.scope),
        }


@dataclass(frozen=True, slots=True)
class Reservation:
    """What a send has set aside: its day in the tenant's zone, and what to tell."""

    day: date | None = None
    resets_at: datetime | None = None
    identity_used: int | None = None
    tenant_used: int | None = None
    warnings: tuple[QuotaWarning, ...] = ()


@dataclass(frozen=True, slots=True)
class Counted:
    """What a mailbox and its tenant have sent on the days that may be today.

    ``account`` is that of a metered tenant, and None for any other.
    """

    days: TenantDays
    counts: tuple[tuple[str, str, int], ...]
    """Metric, day and value of each counter."""
    account: PlannedAccount | None = None

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> "Counted":
        """Return what ``quota.selectors.COUNTED`` has read."""
        days = TenantDays.of_row(row["timezone"], row["tz_next"])
        account = row.get("account")
        return cls(
            days,
            tuple((metric, day, n) for metric, day, n in row["counts"]),
            None if account is None else PlannedAccount.of_row(account),
        )

    def on_day_of(self, now: datetime) -> dict[str, int]:
        """Return the value of each metric on the tenant's day of an instant."""
        today = self.days.day(now).isoformat()
        return {metric: n for metric, day, n in self.counts if day == today}


def caps_of(
    identity_id: str,
    *,
    policy: Mapping[str, Any],
    send_policy: Mapping[str, Any],
    is_system: bool = False,
) -> Caps:
    """Return the caps of an identity's sends, from its policy and its tenant's."""
    if is_system:
        return Caps(identity_id, SYSTEM_CAP, None)
    own = send_policy.get("daily_cap")
    identity = policy["identity_daily_send_cap"] if own is None else own
    return Caps(identity_id, int(identity), int(policy["tenant_daily_send_cap"]))


def identity_metric(identity_id: str) -> str:
    """Return the name of an identity's counter."""
    return f"{TENANT_METRIC}:{identity_id}"


def cap_reached(caps: Caps, counts: Mapping[str, int]) -> Scope | None:
    """Return whose cap leaves no room for one message more; the identity's first."""
    for metric, (scope, cap) in caps.metrics().items():
        if counts.get(metric, 0) + 1 > cap:
            return scope
    return None


def warning_marks(metric: str, *, used: int, cap: int) -> dict[str, int]:
    """Return the marks that a count has reached, each with its percentage.

    A mark that stands already has been told: it is stored once a day.
    """
    return {
        f"warned:{metric}:{percent}": percent
        for percent in WARN_AT
        if used * 100 >= cap * percent
    }
