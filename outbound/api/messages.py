"""Sending and reading messages over HTTP: parse, call, render."""

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from core.forms import PageQuery
from core.views import ApiView
from mailboxes.callers import caller_of
from mailboxes.paging import page_of
from mailboxes.selectors import identity_in_reach
from mailboxes.statuses import Operation
from outbound.api.examples import ACCEPTED, BOOKING, CONFLICT, REPLAYED
from outbound.api.includes import IncludeQuery, included
from outbound.api.reading import attempts_of, message_json, message_of, messages_of
from outbound.api.schemas import AttemptList, MessagePage, MessageWithIncludes
from outbound.api.sending import SENDING, SendingView
from outbound.requests import SendRequest


class MessagesView(SendingView):
    """The messages of an identity: send one, list them."""

    @extend_schema(
        operation_id="sendMessage",
        request=SendRequest,
        examples=[BOOKING, ACCEPTED, REPLAYED, CONFLICT],
        **SENDING,
    )
    def post(self, request: Request, identity_id: str) -> Response:
        """Send one message, once, however often the request is repeated.

        With `thread_id` it goes into that thread and answers its newest message.
        """
        return self.submit(request, identity_id, SendRequest, Operation.SEND)

    @extend_schema(
        operation_id="listMessages",
        tags=["messages"],
        parameters=PageQuery.parameters(),
        responses=MessagePage,
    )
    def get(self, request: Request, identity_id: str) -> Response:
        """List the messages of an identity, newest first."""
        identity = identity_in_reach(identity_id, caller=caller_of(request))
        query = PageQuery.parse(request.query_params)
        found = messages_of(identity.id)
        page = page_of(found, request, query=query, render=message_json, order=["-key"])
        return Response(page)


class MessageView(ApiView):
    """One message."""

    @extend_schema(
        operation_id="getMessage",
        tags=["messages"],
        parameters=IncludeQuery.parameters(),
        responses=MessageWithIncludes,
    )
    def get(self, request: Request, identity_id: str, message_id: str) -> Response:
        """Return one message and what became of each recipient."""
        identity = identity_in_reach(identity_id, caller=caller_of(request))
        message = message_of(identity.id, message_id)
        # first: what is made for it may add a flag
        more = included(message, IncludeQuery.parse(request.query_params))
        return Response({**message_json(message), **more})


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
