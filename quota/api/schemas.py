"""The shapes of plans and of a tenant's billing, as they come and go."""

from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any, ClassVar, Final, Literal

from drf_spectacular.utils import OpenApiExample
from pydantic import Field

from core.forms import Form, Instant
from core.schemas import Shape
from quota.catalogue import BUILT_IN, PLAN_ID
from quota.statuses import BillingMode

MOST_TOPUPS: Final = 1_000_000
Bought = Annotated[int, Field(ge=0, le=MOST_TOPUPS)]


class TopUpsPatch(Form):
    """How many top-ups a tenant has from now on; what is left out stays."""

    sends: Bought = 0
    inboxes: Bought = 0


class BillingPatch(Form):
    """What of a tenant's billing may change; what is left out stays."""

    mode: Annotated[
        Literal["metered", "exempt", "disabled"],
        Field(description="Only `metered` is limited by its plan."),
    ] = "metered"
    plan_id: Annotated[str, Field(pattern=PLAN_ID)] = Field(default_factory=str)
    topups: TopUpsPatch = Field(default_factory=TopUpsPatch)
    period_start: Annotated[
        Instant,
        Field(
            description="The period that is paid for begins here. Later than the one"
            " that runs, it begins a new one with nothing used; otherwise it changes"
            " nothing, so it can be told twice, or late."
        ),
    ] = Field(default_factory=partial(datetime.fromtimestamp, 0, UTC))
    past_due_since: Annotated[
        Instant | None,
        Field(
            description="Since when a payment is due: the plan is kept for the grace of"
            " the deployment, then it is the default one. `null` once it has come."
        ),
    ] = None


class TopUpsOut(Shape):
    """How many top-ups a tenant has; they count on a plan that takes them."""

    sends: int
    inboxes: int


class BillingOut(Shape):
    """What a tenant is on."""

    example: ClassVar[dict[str, Any]] = {
        "mode": "metered",
        "plan_id": "developer",
        "topups": {"sends": 2, "inboxes": 0},
        "period_start": "2026-05-04T09:00:00.000Z",
        "past_due_since": None,
    }

    mode: BillingMode = Field(
        description="The mode in force: `disabled` for everybody while billing is off"
        " in this deployment, whatever was set."
    )
    plan_id: str
    topups: TopUpsOut
    period_start: datetime
    past_due_since: datetime | None


class FeaturesOut(Shape):
    """What a plan includes; null is unlimited."""

    sends: int | None
    inboxes: int | None
    custom_domains: int | None
    storage_gb: int | None


class PlanOut(Shape):
    """One plan; with `topups`, more can be bought."""

    plan_id: str
    price: int
    features: FeaturesOut
    topups: bool


class TopUpOut(Shape):
    """What one top-up adds, and its price."""

    units: int
    price: int


class TopUpPricesOut(Shape):
    """The top-ups that there are."""

    sends: TopUpOut
    inboxes: TopUpOut


class PlansOut(Shape):
    """The plan catalogue in force; prices are in the currency's smallest unit."""

    example: ClassVar[dict[str, Any]] = BUILT_IN.model_dump(mode="json")

    version: int
    currency: str
    interval: Literal["month"]
    default_plan: str
    topups: TopUpPricesOut
    plans: list[PlanOut]


TEAM: Final = OpenApiExample(
    "Another plan, with more sends",
    value={"plan_id": "team", "topups": {"sends": 10}},
    request_only=True,
)
