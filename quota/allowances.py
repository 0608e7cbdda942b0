"""Whether an allowance has room. Pure.

Quota, part A3: what is held counts as if it were used. Storage is a gate: never held,
it shuts once more is used than granted.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from quota.errors import BillingLimit
from quota.periods import Period
from quota.statuses import Feature


@dataclass(frozen=True, slots=True)
class Standing:
    """How one allowance stands; ``granted`` None is unlimited.

    ``is_marked``: that it is spent was announced in this period.
    """

    feature: Feature
    granted: int | None
    used: int
    held: int = 0
    is_marked: bool = False

    @property
    def remaining(self) -> int | None:
        """Return what may still be held; None is unlimited."""
        if self.granted is None:
            return None
        return max(0, self.granted - self.used - self.held)

    def refuses(self, units: int) -> bool:
        """Tell whether so many units more do not fit, or a gate is shut."""
        if self.granted is None:
            return False
        if self.feature == Feature.STORAGE_GB:
            return self.used > self.granted
        return self.used + self.held + units > self.granted


@dataclass(frozen=True, slots=True)
class PlannedAccount:
    """What a metered tenant's account and allowances said when they were read."""

    tenant_id: str
    catalog_hash: str
    period: Period
    standings: tuple[Standing, ...]

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> "PlannedAccount":
        """Return what ``quota.selectors.COUNTED`` has read of an account."""
        start, end = map(datetime.fromisoformat, row["period"])
        standings = tuple(Standing(Feature(name), *rest) for name, *rest in row["rows"])
        return cls(row["tenant_id"], row["catalog_hash"], Period(start, end), standings)


def refuse_if_spent(
    standings: Sequence[Standing],
    *,
    tenant_id: str,
    units: int,
    gates: Collection[Feature],
    period: Period,
    upgrade_url: str | None,
    wanted: Feature = Feature.SENDS,
) -> None:
    """Raise BillingLimit if the ``wanted`` has no room, or else if a gate is shut.

    Without units nothing is asked.
    """
    by_feature = {standing.feature: standing for standing in standings}
    for feature in (wanted, *gates) if units else ():
        standing = by_feature.get(feature)
        if standing is not None and standing.refuses(units):
            raise BillingLimit.of(
                feature,
                tenant_id=tenant_id,
                granted=standing.granted,
                used=standing.used,
                period=period,
                is_first=not standing.is_marked,
                upgrade_url=upgrade_url,
            )
