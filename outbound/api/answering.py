"""Answering and passing on a message over HTTP."""

from drf_spectacular.utils import OpenApiExample
from rest_framework.request import Request
from rest_framework.response import Response

from core.described import described
from mailboxes.statuses import Operation
from outbound.api.sending import SENDING, SendingView
from outbound.requests import ForwardRequest, ReplyRequest

ANSWER = OpenApiExample("An answer", value=ReplyRequest.example, request_only=True)
PASSED_ON = OpenApiExample("Passed on", value=ForwardRequest.example, request_only=True)


class ReplyView(SendingView):
    """Answers to one message."""

    @described(
        operation_id="replyToMessage",
        request=ReplyRequest,
        examples=[ANSWER],
        **SENDING,
    )
    def post(self, request: Request, identity_id: str, message_id: str) -> Response:
        """Answer whoever wrote a message, in its thread.

        The answer goes to the first Reply-To if that can be trusted, else to From; to
        a message of our own, to those it was written to.
        """
        return self.submit(
            request, identity_id, ReplyRequest, Operation.REPLY, message_id
        )


class ReplyAllView(SendingView):
    """Answers to everybody whom one message names."""

    @described(
        operation_id="replyAllToMessage",
        request=ReplyRequest,
        examples=[ANSWER],
        **SENDING,
    )
    def post(self, request: Request, identity_id: str, message_id: str) -> Response:
        """Answer everybody whom a message names, but for the identity itself.

        Nobody learns of a BCC: it is never answered.
        """
        return self.submit(
            request, identity_id, ReplyRequest, Operation.REPLY_ALL, message_id
        )


class ForwardView(SendingView):
    """Messages that are passed on."""

    @described(
        operation_id="forwardMessage",
        request=ForwardRequest,
        examples=[PASSED_ON],
        **SENDING,
    )
    def post(self, request: Request, identity_id: str, message_id: str) -> Response:
        """Pass a message on to others, with its files unless they are left out."""
        return self.submit(
            request, identity_id, ForwardRequest, Operation.FORWARD, message_id
        )
