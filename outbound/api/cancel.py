"""Canceling a message that waits."""

from typing import Final

from drf_spectacular.utils import OpenApiExample
from rest_framework.request import Request
from rest_framework.response import Response

from core.described import described
from core.forms import Nothing
from core.schemas import refusals
from core.views import ApiView
from mailboxes.api.once import KEY_HEADER, Answer, answer_once
from mailboxes.callers import caller_of
from mailboxes.models import Message
from mailboxes.selectors import identity_in_reach
from outbound.api.examples import MESSAGE_SHOWN
from outbound.api.messages import NO_MESSAGE
from outbound.api.reading import message_json, message_of
from outbound.api.schemas import MessageOut
from outbound.cancel import cancel

CANCELED: Final = OpenApiExample(
    "Canceled",
    value={**MESSAGE_SHOWN, "status": "canceled"},
    response_only=True,
    status_codes=["200"],
)
TOO_LATE: Final = OpenApiExample(
    "A worker was faster",
    value={
        "error": {
            "code": "not_cancelable",
            "message": "The message is submitted, not queued.",
            "retryable": False,
            "fix": "Read the message again: its status tells what became of it.",
            "request_id": "req_01K9ZT3N4C6Y8QF5R7W2V1X0AB",
            "details": {"status": "submitted"},
        }
    },
    response_only=True,
    status_codes=["409"],
)


class CancelView(ApiView):
    """The end of a message that has not left."""

    @described(
        operation_id="cancelMessage",
        tags=["messages"],
        request=None,
        parameters=[KEY_HEADER],
        examples=[CANCELED, TOO_LATE],
        responses={
            200: MessageOut,
            **refusals(
                {
                    404: NO_MESSAGE,
                    409: "`not_cancelable`: taken by a worker, past `queued`, or partly"
                    " sent. `idempotency_conflict`, `request_in_progress`.",
                }
            ),
        },
    )
    def post(self, request: Request, identity_id: str, message_id: str) -> Response:
        """Cancel a message that still waits, also one that waits to be tried again.

        After the 200 it is never sent. Its recipients stay `queued`, and the key of its
        send goes on giving the answer that the send was given.
        """
        caller = caller_of(request)

        def found() -> Message:
            identity = identity_in_reach(identity_id, caller=caller)
            return message_of(identity.id, message_id)

        def do(_: Nothing) -> Answer:
            found()
            cancel(message_id, actor_key_id=caller.key_id)
            body = message_json(found())
            return Answer(body, status=200, kept={"id": message_id})

        return answer_once(
            request, Nothing, do, reach=found, again=lambda _: message_json(found())
        )
