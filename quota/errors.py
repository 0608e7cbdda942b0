"""Why something is refused for its amount."""

from core.errors import PylotaError
from quota.periods import Period
from quota.statuses import Feature


class BillingLimit(PylotaError):
    """The tenant's plan has no room for what was asked.

    ``details`` holds ``feature``, ``granted``, ``used``, ``resets_at``, which is null
    for what does not begin anew each period, and ``upgrade_url``, null where there is
    none. ``is_first``: nobody has been told in this ``period`` yet.
    """

    code = "billing_limit"
    status = 402
    fix = "Raise the allowance, or wait until it has room; then use the same key."

    tenant_id: str
    period: Period
    is_first: bool

    @classmethod
    def of(
        cls,
        feature: Feature,
        *,
        tenant_id: str,
        granted: int | None,
        used: int,
        period: Period,
        is_first: bool,
        upgrade_url: str | None,
    ) -> "BillingLimit":
        """Refuse because of one feature."""
        ends = period.end if feature == Feature.SENDS else None
        found = cls(
            f"The plan's allowance of {feature} has no room for this.",
            details={
                "feature": str(feature),
                "granted": granted,
                "used": used,
                "resets_at": ends and ends.isoformat().replace("+00:00", "Z"),
                "upgrade_url": upgrade_url,
            },
        )
        found.tenant_id, found.period, found.is_first = tenant_id, period, is_first
        return found


class DailyCapReached(PylotaError):
    """The identity or its tenant has accepted its last message of the local day.

    ``details.cap`` says whose cap it is, ``details.resets_at`` when the day ends.
    """

    code = "daily_cap_reached"
    status = 429
    retryable = True
    fix = "Wait until details.resets_at or raise the cap; then use the same key."
