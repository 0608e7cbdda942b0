"""The shapes of what a tenant has used, as they are asked for and shown."""

from datetime import date
from typing import Annotated, Any, ClassVar, Final

from pydantic import Field

from core.errors import InvalidRequest
from core.forms import Day, Query
from core.schemas import Shape
from quota.statuses import BillingMode, Feature

MOST_DAYS: Final = 92
"""Days of one answer, and days that are kept."""
USUAL_DAYS: Final = 30


class UsageQuery(Query):
    """Whose usage: the key's own tenant's, or of a platform key the one it names."""

    tenant_id: Annotated[
        str | None,
        Field(description="A platform key names the tenant.", max_length=200),
    ] = None


class DailyUsageQuery(UsageQuery):
    """Which days, the first and the last of them included."""

    first: Annotated[
        Day | None,
        Field(
            alias="from",
            description=f"The first day, in UTC; {USUAL_DAYS} days in all by default.",
        ),
    ] = None
    last: Annotated[
        Day | None,
        Field(
            alias="to",
            description="The last day, in UTC; today by default. At most"
            f" {MOST_DAYS} days in all.",
        ),
    ] = None

    def days(self, *, today: date) -> tuple[date, date]:
        """Return the first and the last day; raises InvalidRequest with a path."""
        last = self.last or today
        usual = max(1, last.toordinal() - USUAL_DAYS + 1)
        first = self.first or date.fromordinal(usual)
        if first > last:
            raise InvalidRequest.at("from", "The first day comes after the last.")
        if (last - first).days >= MOST_DAYS:
            raise InvalidRequest.at("from", f"At most {MOST_DAYS} days can be asked.")
        return first, last


class FeatureUsageOut(Shape):
    """How one feature stands."""

    feature: Feature
    granted: int | None = Field(description="What plan and top-ups allow.")
    used: int = Field(
        description="Of `sends`, recipients that a transport accepted in this period;"
        " of the others, what is there: `storage_gb` as of the last hour."
    )
    remaining: int | None = Field(
        description="What is neither used nor held for what is on its way."
    )
    unlimited: bool
    resets_at: str | None = Field(
        description="When `used` begins anew; null for what is counted.",
        json_schema_extra={"format": "date-time"},
    )


class UsageOut(Shape):
    """What a tenant may use, and has; `granted` and `remaining` null: no limit."""

    example: ClassVar[dict[str, Any]] = {
        "billing": "metered",
        "features": [
            {
                "feature": feature,
                "granted": granted,
                "used": used,
                "remaining": granted - used - held,
                "unlimited": False,
                "resets_at": resets_at,
            }
            for feature, granted, used, held, resets_at in (
                ("inboxes", 10, 3, 0, None),
                ("sends", 10000, 1204, 6, "2026-12-01T00:00:00.000Z"),
                ("custom_domains", 5, 1, 0, None),
                ("storage_gb", 10, 2, 0, None),
            )
        ],
    }

    billing: BillingMode = Field(description="The mode in force.")
    features: list[FeatureUsageOut]


class UsedDayOut(Shape):
    """What was used on one day in UTC."""

    day: date
    inbound: int = Field(description="Messages that came in.")
    outbound: int = Field(description="Messages that a transport accepted.")
    sends: int = Field(description="Recipients that a transport accepted.")
    storage_bytes: int = Field(
        description="What was stored when it was last measured on that day."
    )


class DailyUsageOut(Shape):
    """The days that were asked for, oldest first; one without any use may be absent."""

    example: ClassVar[dict[str, Any]] = {
        "data": [
            {
                "day": "2026-11-02",
                "inbound": 12,
                "outbound": 40,
                "sends": 55,
                "storage_bytes": 73400320,
            }
        ]
    }

    data: list[UsedDayOut]
