"""What the four ways to send have in common: their headers, refusals and answers."""

from typing import Final, TypedDict

from drf_spectacular.utils import OpenApiParameter, OpenApiResponse
from rest_framework.request import Request
from rest_framework.response import Response

from core.bodies import read_json
from core.canonical import key_hash
from core.clock import elapsed_clock
from core.errors import InvalidRequest, PylotaError
from core.idempotency import HEADER, optional_key, required_key
from core.schemas import refusals
from core.views import ApiView, check_parameters
from mailboxes.callers import caller_of
from mailboxes.selectors import live_identity_in_reach
from mailboxes.statuses import Operation
from outbound.api.field_order import in_order
from outbound.api.schemas import AcceptedMessage, DryRun
from outbound.dry_run import dry_run
from outbound.ledger import Accepted
from outbound.order import Order
from outbound.requests import ForwardRequest, ReplyRequest, SendRequest
from outbound.send import send

KEY_HEADER: Final = OpenApiParameter(
    name="Idempotency-Key",
    location=OpenApiParameter.HEADER,
    type={"type": "string", "pattern": r"^[\x20-\x7E]{1,255}$"},
    description="Required, but for a dry run, which neither looks it up nor records it."
    " One per message, repeated with each retry: it never sends twice.",
)
DRY_RUN: Final = OpenApiParameter(
    name="dry_run",
    type=bool,
    default=False,
    description="Only judge the request: nothing is sent, stored or counted.",
)
REFUSALS: Final = {
    400: "`idempotency_key_required`, `address_invalid`, `address_unsupported`,"
    " `too_many_recipients`, `header_not_allowed`, `marketing_requirements_missing`,"
    " or `invalid_request`: `details.errors` lists each path.",
    402: "`billing_limit`: the allowance is spent.",
    403: "`tenant_suspended`, `test_mode_recipient`, `permission_denied`.",
    404: "`identity_not_found`; `thread_not_found`, of a `thread_id`;"
    " `message_not_found`, of what is answered or passed on.",
    409: "`idempotency_conflict`, `request_in_progress`, `identity_paused`,"
    " `identity_owner_required`, `domain_not_ready`, `auto_reply_not_allowed`,"
    " `loop_detected`, `thread_busy`.",
    411: "`length_required`: send Content-Length.",
    413: "`payload_too_large`, `message_too_large`.",
    422: "`transport_unavailable`; of a dry run alone `all_recipients_suppressed`,"
    " `recipient_blocked`.",
    429: "`daily_cap_reached`: `details.cap`, until `details.resets_at`."
    " `rate_limited`: wait for `Retry-After`.",
    504: "`timeout`: nothing was stored.",
}


class _Described(TypedDict):
    tags: list[str]
    parameters: list[OpenApiParameter]
    responses: dict[int, OpenApiResponse]


SENDING: Final[_Described] = {
    "tags": ["messages"],
    "parameters": [KEY_HEADER, DRY_RUN],
    "responses": {
        200: OpenApiResponse(DryRun, description="What a dry run found."),
        202: OpenApiResponse(
            AcceptedMessage,
            description="Accepted now, or earlier under the same key: then with"
            " `Idempotent-Replayed: true` and the first answer as it was.",
        ),
        **refusals(REFUSALS),
    },
}
"""What the description says of every way to send."""


class SendingView(ApiView):
    """A route that sends: it counts in the bucket of sends."""

    sends = True

    def submit(
        self,
        request: Request,
        identity_id: str,
        form: type[SendRequest | ReplyRequest | ForwardRequest],
        operation: Operation,
        message_id: str | None = None,
    ) -> Response:
        """Send what the body asks for, or only judge it."""
        started = elapsed_clock()
        try:
            check_parameters(request, known={DRY_RUN.name})
            is_dry = _is_dry_run(request)
            order = Order(
                caller=caller_of(request),
                identity_id=identity_id,
                key_hash=_key_hash(request, is_dry=is_dry),
                body=(body := read_json(request._request)),
                request=form.parse(body),
                started=started,
                operation=operation,
                message_id=message_id,
            )
        except PylotaError:
            # what is out of reach is not there, whatever else is wrong
            live_identity_in_reach(identity_id, caller=caller_of(request))
            raise
        if is_dry:
            return Response(dry_run(order))
        return render_accepted(send(order))


def render_accepted(accepted: Accepted) -> Response:
    """Return 202 with the message as it was accepted, now or earlier."""
    body = in_order(accepted.message)
    body["deduplicated"] = accepted.deduplicated
    headers = {"Idempotent-Replayed": "true"} if accepted.deduplicated else {}
    return Response(body, status=202, headers=headers)


def _key_hash(request: Request, *, is_dry: bool) -> str:
    """Return the hash of the key; a dry run takes any good one, and needs none."""
    header = request.META.get(HEADER)
    if is_dry:
        optional_key(header)
        return ""
    return key_hash(required_key(header))


def _is_dry_run(request: Request) -> bool:
    wanted = request.query_params.get("dry_run", "false")
    if wanted not in ("true", "false"):
        raise InvalidRequest.at("dry_run", "It is true or false.")
    return wanted == "true"
