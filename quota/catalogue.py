"""The plans that a tenant can be on, and what each of them includes. Pure.

``PM_PLAN_CATALOG`` holds one in JSON (quota, part A2). Prices are whole numbers of the
currency's smallest unit, amounts are units of their feature, and ``null`` is unlimited.
"""

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from core.canonical import canonical_json, sha256_hex
from quota.statuses import Feature

PLAN_ID: Final = r"^[a-z][a-z0-9_]{0,31}$"
Amount = Annotated[int, Field(ge=0, le=2**31)]
Price = Annotated[int, Field(ge=0, le=10**9)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Features(_Part):
    """What a plan includes; each feature is named."""

    sends: Amount | None
    inboxes: Amount | None
    custom_domains: Amount | None
    storage_gb: Amount | None


class Plan(_Part):
    """One plan; with ``topups``, more can be bought."""

    plan_id: Annotated[str, Field(pattern=PLAN_ID)]
    price: Price
    features: Features
    topups: bool

    def granted(self, feature: Feature, units: int) -> int | None:
        """Return what the plan and so many units of more come to; None: unlimited."""
        included: int | None = getattr(self.features, feature)
        if included is None or not self.topups:
            return included
        return included + units


class TopUp(_Part):
    """What one top-up adds of its feature, and its price."""

    units: Annotated[int, Field(ge=1, le=2**31)]
    price: Price


class TopUps(_Part):
    """The top-ups that can be bought."""

    sends: TopUp
    inboxes: TopUp


class Catalogue(_Part):
    """The plans of a deployment; ``default_plan`` is free, and everybody's first."""

    version: Literal[1]
    currency: Annotated[str, Field(pattern=r"^[a-z]{3}$")]
    interval: Literal["month"]
    default_plan: str
    topups: TopUps
    plans: Annotated[tuple[Plan, ...], Field(min_length=1, max_length=100)]

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> "Catalogue":
        ids = [plan.plan_id for plan in self.plans]
        if len(set(ids)) < len(ids):
            raise ValueError("two plans have the same plan_id")
        first = self.plan(self.default_plan)
        if first is None or first.price:
            raise ValueError("default_plan names no plan with the price 0")
        return self

    def plan(self, plan_id: str) -> Plan | None:
        """Return a plan, or None if there is none of this id."""
        return next((plan for plan in self.plans if plan.plan_id == plan_id), None)

    def granted(
        self, plan_id: str, topups: Mapping[str, int]
    ) -> dict[Feature, int | None] | None:
        """Return what a plan and its top-ups grant; None for a plan that is gone."""
        plan = self.plan(plan_id)
        if plan is None:
            return None
        size = {Feature.SENDS: self.topups.sends, Feature.INBOXES: self.topups.inboxes}
        more = {f: topups.get(f, 0) * topup.units for f, topup in size.items()}
        return {f: plan.granted(f, more.get(f, 0)) for f in Feature}

    def digest(self) -> str:
        """Return the SHA-256 that stands for this catalogue, in hex."""
        return sha256_hex(canonical_json(self.model_dump(mode="json")))


def parse_catalogue(raw: str) -> Catalogue:
    """Return the catalogue of a JSON text; an empty text is the built-in one.

    Raises ValueError, which says where the first mistake is.
    """
    if not raw:
        return BUILT_IN
    try:
        return Catalogue.model_validate_json(raw)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the catalogue"
        raise ValueError(f"{where}: {first['msg']}") from None


def _plan(plan_id: str, price: int, *included: int, topups: bool = True) -> Plan:
    features = dict(zip(Feature.values, included, strict=True))
    return Plan(
        plan_id=plan_id, price=price, features=Features(**features), topups=topups
    )


BUILT_IN: Final = Catalogue(
    version=1,
    currency="gbp",
    interval="month",
    default_plan="free",
    topups=TopUps(
        sends=TopUp(units=1000, price=100), inboxes=TopUp(units=1, price=100)
    ),
    plans=(
        _plan("free", 0, 1_000, 5, 0, 1, topups=False),
        _plan("developer", 1000, 10_000, 10, 5, 10),
        _plan("team", 4950, 100_000, 100, 50, 100),
    ),
)
