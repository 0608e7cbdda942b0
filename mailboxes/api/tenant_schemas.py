"""The shapes of tenants, their policies and audit rows, as they come and go."""

from datetime import datetime
from typing import Annotated, Any, ClassVar, Final, Literal

from drf_spectacular.utils import OpenApiExample
from pydantic import AfterValidator, Field

from core.forms import Form, PageQuery
from core.schemas import Page, Shape
from mailboxes.policy import BUILT_IN
from mailboxes.policy_fields import PolicyFields
from mailboxes.statuses import TenantMode, TenantStatus
from mailboxes.tenant_services import SLUG, SUFFIX
from quota.days import is_zone

TENANT_SHOWN: Final[dict[str, Any]] = {
    "id": "ten_01K9ZT3N4C6Y8QF5R7W2V1X0AB",
    "slug": "acme",
    "name": "Acme Hotels",
    "mode": "live",
    "status": "active",
    "address_suffix": ".acme",
    "timezone": "Europe/Berlin",
    "next_timezone": None,
    "policy": dict(BUILT_IN),
    "created_at": "2026-11-02T09:15:20.114Z",
    "updated_at": "2026-11-02T09:15:20.114Z",
}
Mode = Literal["live", "test"]
Status = Literal["active", "suspended"]


def _zone(name: str) -> str:
    if not is_zone(name):
        raise ValueError("no such IANA time zone")
    return name


Name = Annotated[
    str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")
]
Timezone = Annotated[
    str,
    Field(min_length=1, max_length=64, description="A name of the IANA database."),
    AfterValidator(_zone),
]


class TenantCreate(Form):
    """A tenant to make; ``mode`` and ``slug`` stay as they are."""

    slug: Annotated[str, Field(pattern=SLUG)]
    mode: Mode
    name: Annotated[Name, Field(description="The slug, if it is left out.")] = Field(
        default_factory=str
    )
    address_suffix: Annotated[
        str | None,
        Field(
            pattern=SUFFIX,
            description="Stands between user name and `@`: `.` and the slug if it is"
            " left out. One tenant may have it empty.",
        ),
    ] = None
    timezone: Timezone = "UTC"


class TenantPatch(Form):
    """What of a tenant may change; what is left out stays."""

    name: Name = Field(default_factory=str)
    timezone: Annotated[
        Timezone,
        Field(description="Counts from the next midnight of the zone before."),
    ] = Field(default_factory=str)
    status: Status = Field(default_factory=lambda: "active")
    policy: PolicyFields = Field(default_factory=PolicyFields)


class PolicyPatch(Form):
    """A change of a policy, merged into what is there; null resets a field."""

    policy: PolicyFields


class TenantQuery(PageQuery):
    """Which tenants."""

    status: Annotated[Status | None, Field(description="As it is now.")] = None
    mode: Annotated[Mode | None, Field(description="As it was made.")] = None


class NextTimezone(Shape):
    """A change of zone that is still to come."""

    timezone: str
    at: datetime


class TenantOut(Shape):
    """A tenant, and the policy in force for it."""

    example: ClassVar[dict[str, Any]] = TENANT_SHOWN

    id: str
    slug: str
    name: str
    mode: TenantMode
    status: TenantStatus
    address_suffix: str
    timezone: str
    next_timezone: NextTimezone | None
    policy: PolicyFields
    created_at: datetime
    updated_at: datetime


class TenantPage(Page):
    """Tenants, newest first."""

    data: list[TenantOut]


class PolicyOut(Shape):
    """The policy in force, and which of its fields are the tenant's own."""

    example: ClassVar[dict[str, Any]] = {
        "policy_version": 4,
        "policy": {**BUILT_IN, "identity_daily_send_cap": 200},
        "fields": ["identity_daily_send_cap"],
    }

    policy_version: int
    policy: PolicyFields
    fields: list[str] = Field(
        description="Paths of the fields that are set for this tenant; all others are"
        " the deployment's."
    )


class AuditEvent(Shape):
    """Who did what; no actor means the system."""

    example: ClassVar[dict[str, Any]] = {
        "id": "aud_01K9ZT3N4C6Y8QF5R7W2V1X0AB",
        "tenant_id": TENANT_SHOWN["id"],
        "action": "tenant.suspend",
        "actor_key_id": "key_01K9ZT3N4C6Y8QF5R7W2V1X0AB",
        "actor_user_id": None,
        "target_type": "tenant",
        "target_id": TENANT_SHOWN["id"],
        "details": {},
        "request_id": "req_01K9ZT3N4C6Y8QF5R7W2V1X0AB",
        "created_at": "2026-11-02T09:15:20.114Z",
    }

    id: str
    tenant_id: str | None
    action: str
    actor_key_id: str | None
    actor_user_id: str | None
    target_type: str | None
    target_id: str | None
    details: dict[str, Any] | None
    request_id: str | None
    created_at: datetime


class AuditPage(Page):
    """Audit rows, newest first."""

    data: list[AuditEvent]


ACME: Final = OpenApiExample(
    "A tenant to make",
    value={
        "slug": "acme",
        "name": "Acme Hotels",
        "mode": "live",
        "timezone": "Europe/Berlin",
    },
    request_only=True,
)
SUSPEND: Final = OpenApiExample(
    "Stop a tenant", value={"status": "suspended"}, request_only=True
)
LOWER: Final = OpenApiExample(
    "Lower a cap, and reset another field",
    value={"policy": {"identity_daily_send_cap": 200, "auto_reply": {"allowed": None}}},
    request_only=True,
)
