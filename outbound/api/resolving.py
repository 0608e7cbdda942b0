"""Many uncertain sends settled by one call."""

from datetime import datetime
from typing import Annotated, Any, ClassVar, Final, Literal

from drf_spectacular.utils import OpenApiExample
from pydantic import Field, RootModel, ValidationInfo, field_validator
from rest_framework.request import Request
from rest_framework.response import Response

from core.described import described
from core.errors import PylotaError
from core.forms import Form, Instant
from core.ids import ID_PATTERN
from core.schemas import Shape, refusals
from core.views import ApiView
from delivery.bulk import MOST, Answered, resolve_each, uncertain_between
from domains.selectors import seen_domain_name
from mailboxes.api.once import KEY_HEADER, Answer, answer_each_once
from mailboxes.callers import caller_of
from mailboxes.models import Tenant
from mailboxes.selectors import identity_of_tenant, tenant_in_reach
from mailboxes.statuses import MessageStatus

_ID: Final = "msg_01K9ZT3N4C6Y8QF5R7W2V1X0AB"
_OTHER_ID: Final = "msg_01K9ZT3N4C6Y8QF5R7W2V1X0AC"
MessageId = Annotated[str, Field(pattern=ID_PATTERN.format(prefix="msg"))]


class NamedResolution(Form):
    """One answer for sends that are named."""

    example: ClassVar[dict[str, Any]] = {
        "outcome": "not_sent",
        "message_ids": [_ID, _OTHER_ID],
    }

    outcome: Literal["sent", "not_sent"]
    message_ids: Annotated[list[MessageId], Field(min_length=1, max_length=MOST)]


class WindowResolution(Form):
    """One answer for the sends that came into doubt in a time, an outage for one."""

    outcome: Literal["sent", "not_sent"]
    since: Annotated[Instant, Field(description="They became `uncertain` from it on.")]
    until: Annotated[
        Instant, Field(description="They became `uncertain` before it; after `since`.")
    ]
    identity_id: Annotated[
        str | None, Field(description="Only what this identity sent.")
    ] = None
    domain_id: Annotated[
        str | None, Field(description="Only what left under this domain.")
    ] = None

    @field_validator("until")
    @classmethod
    def _come_after(cls, until: datetime, info: ValidationInfo) -> datetime:
        if (since := info.data.get("since")) is not None and until <= since:
            raise ValueError("it must be later than since")
        return until


Asked = NamedResolution | WindowResolution


class Resolutions(RootModel[Asked]):
    """One answer, for sends that are named or for those of a time."""

    example: ClassVar[dict[str, Any]] = NamedResolution.example


class ItemRefusal(Shape):
    """Why nothing was changed."""

    code: str
    message: str
    retryable: bool
    fix: str


class ItemResolved(Shape):
    """What became of one send."""

    message_id: str
    resolved: bool = Field(description="Whether this call has settled it.")
    message_status: MessageStatus | None = Field(
        description="As it is now; null if nothing can be told."
    )
    error: ItemRefusal | None = Field(
        description="`not_uncertain`: an event, or somebody, was faster;"
        " `message_not_found`; `unavailable`: ask again. Null if it was settled."
    )


class Resolved(Shape):
    """What became of each send, in the order in which they were named or found."""

    example: ClassVar[dict[str, Any]] = {
        "outcome": "not_sent",
        "results": [
            {
                "message_id": _ID,
                "resolved": True,
                "message_status": "failed",
                "error": None,
            },
            {
                "message_id": _OTHER_ID,
                "resolved": False,
                "message_status": "delivered",
                "error": {
                    "code": "not_uncertain",
                    "message": "no recipient of this message is uncertain",
                    "retryable": False,
                    "fix": "Read the message again; it has been settled meanwhile.",
                },
            },
        ],
        "has_more": False,
    }

    outcome: Literal["sent", "not_sent"]
    results: list[ItemResolved]
    has_more: bool = Field(
        description=f"More than {MOST} sends came into doubt in this time: call again."
    )


OUTAGE: Final = OpenApiExample(
    "An outage",
    value={
        "outcome": "not_sent",
        "since": "2026-11-02T09:00:00Z",
        "until": "2026-11-02T09:30:00Z",
    },
    request_only=True,
)
NAMED: Final = OpenApiExample(
    "Two sends", value=NamedResolution.example, request_only=True
)


class ResolveManyView(ApiView):
    """One answer to many uncertain sends of a tenant."""

    @described(
        operation_id="resolveMessages",
        tags=["messages"],
        request=Resolutions,
        parameters=[KEY_HEADER],
        examples=[NAMED, OUTAGE],
        responses={
            200: Resolved,
            **refusals(
                {
                    404: "`tenant_not_found`, `identity_not_found`,"
                    " `domain_not_found`: not there, or out of the key's reach.",
                }
            ),
        },
    )
    def post(self, request: Request, tenant_id: str) -> Response:
        """Settle many uncertain sends with one answer: `sent`, or `not_sent`.

        Name up to 500 messages, or a time in which they came into doubt. Each send is
        settled by itself and has a result of its own: one that an event has settled
        meanwhile is refused, and stays as it is.
        """
        caller = caller_of(request)

        def find() -> Tenant:
            return tenant_in_reach(tenant_id, caller=caller)

        def settle(asked: Asked) -> Answer:
            tenant = find()
            ids, has_more = _meant(asked, tenant.id)
            answered = resolve_each(
                ids,
                tenant_id=tenant.id,
                outcome=asked.outcome,
                actor_key_id=caller.key_id,
            )
            body = {
                "outcome": asked.outcome,
                "results": [_result(one) for one in answered],
                "has_more": has_more,
            }
            return Answer(body, status=200)

        return answer_each_once(request, _parse, settle, reach=find)


def _parse(body: dict[str, Any]) -> Asked:
    form = NamedResolution if "message_ids" in body else WindowResolution
    return form.parse(body)


def _meant(asked: Asked, tenant_id: str) -> tuple[list[str], bool]:
    if isinstance(asked, NamedResolution):
        return asked.message_ids, False
    identity_id, domain = asked.identity_id, None
    if identity_id is not None:
        identity_of_tenant(identity_id, tenant_id=tenant_id)
    if asked.domain_id is not None:
        domain = seen_domain_name(asked.domain_id, tenant_id=tenant_id)
    return uncertain_between(
        asked.since,
        asked.until,
        tenant_id=tenant_id,
        identity_id=identity_id,
        domain=domain,
    )


def _result(one: Answered) -> dict[str, Any]:
    return {
        "message_id": one.message_id,
        "resolved": one.refusal is None,
        "message_status": one.status,
        "error": None if one.refusal is None else _refusal(one.refusal),
    }


def _refusal(error: PylotaError) -> dict[str, Any]:
    return {
        "code": error.code,
        "message": error.detail,
        "retryable": error.retryable,
        "fix": error.fix,
    }
