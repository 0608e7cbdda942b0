"""Sending and reading messages over HTTP: parse, call, render."""

from typing import Any

from drf_spectacular.utils import (
    OpenApiParameter,
    OpenApiResponse,
    extend_schema,
)
from rest_framework.request import Request
from rest_framework.response import Response

from core.bodies import read_json
from core.canonical import key_hash
from core.clock import elapsed_clock
from core.errors import PylotaError
from core.schemas import Error
from core.views import ApiView
from mailboxes.callers import caller_of
from mailboxes.selectors import identity_in_reach
from outbound.examples import ACCEPTED, BOOKING, CONFLICT, REPLAYED
from outbound.ledger import Accepted
from outbound.reading import attempts_of, message_json, message_of, message_page
from outbound.requests import SendRequest, idempotency_key
from outbound.schemas import AcceptedMessage, AttemptList, MessageOut, MessagePage
from outbound.send import Order, send

KEY_HEADER = OpenApiParameter(
    name="Idempotency-Key",
    location=OpenApiParameter.HEADER,
    required=True,
    type={"type": "string", "pattern": r"^[\x20-\x7E]{1,255}$"},
    description="One per message, repeated with each retry: it never sends twice.",
)
SEND_REFUSALS = {
    status: OpenApiResponse(Error, description=text)
    for status, text in {
        400: "Malformed, or a limit is broken: `details.errors` lists each path.",
        402: "`billing_limit`: the allowance is spent.",
        403: "`tenant_suspended`, `test_mode_recipient`, `permission_denied`.",
        409: "`idempotency_conflict`, `request_in_progress`, `identity_paused`,"
        " `identity_owner_required`, `domain_not_ready`, `auto_reply_not_allowed`.",
        411: "`length_required`: send Content-Length.",
        413: "`payload_too_large`, `message_too_large`.",
        422: "`transport_unavailable`.",
        504: "`timeout`: nothing was stored.",
    }.items()
}
LIMIT = OpenApiParameter(
    name="limit", type={"type": "integer", "minimum": 1, "maximum": 100, "default": 25}
)
CURSOR = OpenApiParameter(name="cursor", type=str, description="The next page's place.")


class MessagesView(ApiView):
    """The messages of an identity: send one, list them."""

    sends = True  # counts in the bucket of sends

    @extend_schema(
        operation_id="sendMessage",
        tags=["messages"],
        parameters=[KEY_HEADER],
        request=SendRequest,
        responses={
            202: OpenApiResponse(
                AcceptedMessage,
                description="Accepted now, or earlier under the same key: then with"
                " `Idempotent-Replayed: true` and the first answer as it was.",
            ),
            **SEND_REFUSALS,
        },
        examples=[
            BOOKING,
            ACCEPTED,
            REPLAYED,
            CONFLICT,
        ],
    )
    def post(self, request: Request, identity_id: str) -> Response:
        """Send one message, once, however often the request is repeated."""
        return render_accepted(send(self._order(request, identity_id)))

    @extend_schema(
        operation_id="listMessages",
        tags=["messages"],
        parameters=[LIMIT, CURSOR],
        responses=MessagePage,
    )
    def get(self, request: Request, identity_id: str) -> Response:
        """List the messages of an identity, newest first."""
        identity = identity_in_reach(identity_id, caller=caller_of(request))
        query = request.query_params
        rows, cursor = message_page(
            identity.id, limit=query.get("limit"), cursor=query.get("cursor")
        )
        data = [message_json(row) for row in rows]
        return Response({"data": data, "next_cursor": cursor})

    def _order(self, request: Request, identity_id: str) -> Order:
        started = elapsed_clock()
        try:
            key = idempotency_key(request.META.get("HTTP_IDEMPOTENCY_KEY"))
            body = read_json(request._request)
            return Order(
                caller=caller_of(request),
                identity_id=identity_id,
                key_hash=key_hash(key),
                body=body,
                request=SendRequest.parse(body),
                started=started,
            )
        except PylotaError:
            # what is out of reach is not there, whatever else is wrong
            identity_in_reach(identity_id, caller=caller_of(request))
            raise


class MessageView(ApiView):
    """One message."""

    @extend_schema(operation_id="getMessage", tags=["messages"], responses=MessageOut)
    def get(self, request: Request, identity_id: str, message_id: str) -> Response:
        """Return one message and what became of each recipient."""
        identity = identity_in_reach(identity_id, caller=caller_of(request))
        return Response(message_json(message_of(identity.id, message_id)))


class AttemptsView(ApiView):
    """The transport attempts of one message."""

    @extend_schema(
        operation_id="listAttempts", tags=["messages"], responses=AttemptList
    )
    def get(self, request: Request, identity_id: str, message_id: str) -> Response:
        """Return each conversation with a transport, oldest first."""
        identity = identity_in_reach(identity_id, caller=caller_of(request))
        message = message_of(identity.id, message_id)
        return Response({"data": attempts_of(message)})


def render_accepted(accepted: Accepted) -> Response:
    """Return 202 with the message as it was accepted, now or earlier."""
    body: dict[str, Any] = dict(accepted.message)
    body["deduplicated"] = accepted.deduplicated
    headers = {"Idempotent-Replayed": "true"} if accepted.deduplicated else {}
    return Response(body, status=202, headers=headers)
