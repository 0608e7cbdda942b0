"""What may be said of endpoints, and how they and their attempts are shown."""

from datetime import datetime
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import Field, RootModel, ValidationInfo, field_validator

from core.forms import Form, Instant, PageQuery, Shown
from core.ids import ID_PATTERN
from core.schemas import Page, Shape
from webhooks.catalogue import EVENT_TYPES, EVERYTHING
from webhooks.destination import LONGEST_URL
from webhooks.replay import MOST_IN_RANGE, MOST_NAMED, ReplayStatus
from webhooks.statuses import AttemptError, AttemptStatus, DisabledReason

_ULID: Final = "01K9ZT3N4C6Y8QF5R7W2V1X0AB"
_EVENT: Final = f"evt_{_ULID}"
WEBHOOK_EXAMPLE: Final[dict[str, Any]] = {
    "id": f"whk_{_ULID}",
    "scope": "tenant",
    "tenant_id": f"ten_{_ULID}",
    "url": "https://hooks.example.com/pylota",
    "events": ["message.bounced", "message.complained"],
    "identity_ids": None,
    "description": "bounces to the CRM",
    "enabled": True,
    "disabled_reason": None,
    "created_at": "2026-11-02T09:15:20.114Z",
    "updated_at": "2026-11-02T09:15:20.114Z",
}
MOST_TYPES: Final = 100
MOST_IDENTITIES: Final = 100

Url = Annotated[
    str,
    Field(
        min_length=1,
        max_length=LONGEST_URL,
        description="`https`, a host with public addresses, no user, no fragment;"
        " looked up when it is saved, and before each attempt.",
    ),
]
EventType = Annotated[str, Shown("enum", [EVERYTHING, *sorted(EVENT_TYPES)])]
Events = Annotated[
    list[EventType],
    Field(
        min_length=1,
        max_length=MOST_TYPES,
        description="Types of event, or `*` for all, those of later versions too.",
    ),
]
Identities = Annotated[
    list[str] | None,
    Field(
        min_length=1,
        max_length=MOST_IDENTITIES,
        description="Only events of these identities; null: of all, and of none.",
    ),
]
Description = Annotated[
    str | None, Field(max_length=500, pattern=r"^[^\x00-\x1f\x7f]*$")
]


class WebhookForm(Form):
    """An endpoint to make."""

    example: ClassVar[dict[str, Any]] = {
        name: WEBHOOK_EXAMPLE[name] for name in ("url", "events", "description")
    }

    url: Url
    events: Events
    identity_ids: Identities = None
    description: Description = None


class WebhookPatch(Form):
    """What of an endpoint may change; what is left out stays."""

    example: ClassVar[dict[str, Any]] = {"events": ["*"], "enabled": True}

    url: Url = Field(default_factory=str)
    events: Events = Field(default_factory=list)
    identity_ids: Identities = None
    description: Description = None
    enabled: Annotated[
        bool, Field(description="`true` ends any reason but `url_changed`.")
    ] = Field(default_factory=bool)


class RotateSecretForm(Form):
    """For how long the secret before goes on signing beside the new one."""

    example: ClassVar[dict[str, Any]] = {"overlap_hours": 24}

    overlap_hours: Annotated[
        int, Field(ge=0, le=168, description="0 ends the secret before at once.")
    ] = 24


class NamedReplay(Form):
    """Events to send again, by their ids."""

    example: ClassVar[dict[str, Any]] = {"event_ids": [_EVENT]}

    event_ids: Annotated[
        list[Annotated[str, Field(pattern=ID_PATTERN.format(prefix="evt"))]],
        Field(min_length=1, max_length=MOST_NAMED),
    ]


class RangeReplay(Form):
    """Events to send again, by the time in which they occurred."""

    since: Annotated[Instant, Field(description="They occurred from it on.")]
    until: Annotated[
        Instant | None, Field(description="They occurred before it; now, if left out.")
    ] = None
    status: Annotated[
        ReplayStatus,
        Field(
            strict=False,
            description="What became of them here: `dead` is given up and never"
            " answered 2xx, `failed` that the latest attempt did, `succeeded` that any"
            " attempt was answered 2xx. Any, if left out.",
        ),
    ] = Field(default_factory=lambda: ReplayStatus.DEAD)

    @field_validator("until")
    @classmethod
    def _come_after(
        cls, until: datetime | None, info: ValidationInfo
    ) -> datetime | None:
        since = info.data.get("since")
        if since is not None and until is not None and until <= since:
            raise ValueError("it must be later than since")
        return until


class Replays(RootModel[NamedReplay | RangeReplay]):
    """Events to send again: those that are named, or those of a time."""

    example: ClassVar[dict[str, Any]] = NamedReplay.example


class WebhookQuery(PageQuery):
    """Which endpoints."""

    scope: Annotated[
        Literal["platform", "tenant"] | None,
        Field(description="The platform's own, or those of tenants."),
    ] = None


class AttemptQuery(PageQuery):
    """Which attempts: those that meet all of it."""

    status: Annotated[AttemptStatus | None, Field(description="How it ended.")] = None
    event_type: Annotated[
        str | None, Field(max_length=100, description="E.g. `message.bounced`.")
    ] = None
    after: Annotated[Instant | None, Field(description="Later than this instant.")] = (
        None
    )


class Webhook(Shape):
    """An endpoint, without its secret."""

    example: ClassVar[dict[str, Any]] = WEBHOOK_EXAMPLE

    id: str
    scope: Literal["platform", "tenant"]
    tenant_id: str | None
    url: str
    events: list[str]
    identity_ids: list[str] | None
    description: str | None
    enabled: bool
    disabled_reason: DisabledReason | None
    created_at: datetime
    updated_at: datetime


class WebhookWithSecret(Webhook):
    """An endpoint and the secret that signs for it, which is shown this once."""

    secret: str | None = Field(
        default=None, description="Absent from a repeat under an Idempotency-Key."
    )
    secret_replayed: bool | None = Field(
        default=None, description="`false` in such a repeat, else absent."
    )


class WebhookPage(Page):
    """One page of endpoints, newest first."""

    data: list[Webhook]


class Replayed(Shape):
    """How many events are on their way again."""

    example: ClassVar[dict[str, Any]] = {"dispatched": 12}

    dispatched: int = Field(
        description=f"At most {MOST_IN_RANGE}; what the endpoint's filters leave out,"
        " and what is too old, is not among them."
    )


class WebhookAttemptOut(Shape):
    """One request to an endpoint, and its end."""

    example: ClassVar[dict[str, Any]] = {
        "id": f"dlv_{_ULID}",
        "webhook_id": WEBHOOK_EXAMPLE["id"],
        "event_id": _EVENT,
        "event_type": "message.bounced",
        "attempt": 2,
        "status": "failed",
        "http_status": 503,
        "error": "status_5xx",
        "duration_ms": 412,
        "next_attempt_at": "2026-11-02T09:17:50.526Z",
        "created_at": "2026-11-02T09:15:50.114Z",
    }

    id: str
    webhook_id: str
    event_id: str
    event_type: str
    attempt: int
    status: AttemptStatus = Field(description="`dead`: no other follows by itself.")
    http_status: int | None
    error: AttemptError | None
    duration_ms: int | None
    next_attempt_at: datetime | None
    created_at: datetime


class WebhookAttemptPage(Page):
    """One page of attempts, newest first."""

    data: list[WebhookAttemptOut]
