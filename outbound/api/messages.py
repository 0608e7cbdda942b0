"""Sending and reading messages over HTTP: parse, call, render."""

from typing import Final

from rest_framework.request import Request
from rest_framework.response import Response

from core.bodies import read_json
from core.described import described
from core.forms import PageQuery
from core.schemas import refusals
from core.views import ApiView
from delivery.models import Attempt
from delivery.services import resolve
from mailboxes.api.once import KEY_HEADER, Answer, answer_once
from mailboxes.callers import caller_of
from mailboxes.filing_services import file_message
from mailboxes.mail_selectors import seen_message
from mailboxes.paging import page_of
from mailboxes.selectors import identity_in_reach, live_identity_in_reach
from mailboxes.statuses import Operation
from outbound.api.changes import MessageChanges, Resolution
from outbound.api.examples import (
    ACCEPTED,
    ATTEMPTS,
    BOOKING,
    CONFLICT,
    FILED,
    REPLAYED,
    RESOLVED,
)
from outbound.api.includes import IncludeQuery, included
from outbound.api.queries import MessagesQuery
from outbound.api.reading import (
    attempt_json,
    listed_messages,
    message_json,
    message_of,
)
from outbound.api.schemas import (
    AttemptPage,
    MessageOut,
    MessagePage,
    MessageWithIncludes,
)
from outbound.api.sending import SENDING, SendingView
from outbound.requests import SendRequest

NO_IDENTITY: Final = "`identity_not_found`."
NO_MESSAGE: Final = "`identity_not_found`, `message_not_found`."
MOVED: Final = ("status", "reason", "deliveries", "provider_message_id", "evidence")
"""What a resolution changes; only this of its answer is remembered for a repeat."""


class MessagesView(SendingView):
    """The messages of an identity: send one, list them."""

    @described(
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

    @described(
        operation_id="listMessages",
        tags=["messages"],
        parameters=MessagesQuery.parameters(),
        responses={200: MessagePage, **refusals({404: NO_IDENTITY})},
    )
    def get(self, request: Request, identity_id: str) -> Response:
        """List the messages of an identity, newest first."""
        identity = identity_in_reach(identity_id, caller=caller_of(request))
        query = MessagesQuery.parse(request.query_params)
        found = listed_messages(identity.id).filter(**query.filters())
        newest = ("-received_at", "-public_id")
        page = page_of(found, request, query=query, render=message_json, order=newest)
        return Response(page)


class MessageView(ApiView):
    """One message."""

    @described(
        operation_id="getMessage",
        tags=["messages"],
        parameters=IncludeQuery.parameters(),
        responses={200: MessageWithIncludes, **refusals({404: NO_MESSAGE})},
    )
    def get(self, request: Request, identity_id: str, message_id: str) -> Response:
        """Return one message and what became of each recipient."""
        identity = identity_in_reach(identity_id, caller=caller_of(request))
        message = message_of(identity.id, message_id)
        # first: what is made for it may add a flag
        more = included(message, IncludeQuery.parse(request.query_params))
        return Response({**message_json(message), **more})

    @described(
        operation_id="updateMessage",
        tags=["messages"],
        request=MessageChanges,
        examples=[FILED],
        responses={200: MessageOut, **refusals({404: NO_MESSAGE})},
    )
    def patch(self, request: Request, identity_id: str, message_id: str) -> Response:
        """File a message: add labels, remove some, say that it was read or was not.

        Only received mail can be unread; what was sent counts as read.
        """
        caller = caller_of(request)
        identity = live_identity_in_reach(identity_id, caller=caller)
        seen_message(identity.id, message_id)  # what is not there has no wrong fields
        changes = MessageChanges.parse(read_json(request._request))
        file_message(
            identity.id, message_id, changes.filing(), actor_key_id=caller.key_id
        )
        return Response(message_json(message_of(identity.id, message_id)))


class ResolveView(ApiView):
    """The answer to an uncertain send."""

    @described(
        operation_id="resolveMessage",
        tags=["messages"],
        request=Resolution,
        parameters=[KEY_HEADER],
        examples=[RESOLVED],
        responses={
            200: MessageOut,
            **refusals(
                {
                    404: NO_MESSAGE,
                    409: "`not_uncertain`: an event, or somebody, was faster."
                    " `idempotency_conflict`, `request_in_progress`.",
                }
            ),
        },
    )
    def post(self, request: Request, identity_id: str, message_id: str) -> Response:
        """Settle an uncertain send: it was `sent`, or it was `not_sent`.

        Nothing is sent by it. Each recipient in doubt becomes `submitted` or `failed`,
        and the message follows.
        """
        caller = caller_of(request)

        def find() -> str:
            identity = identity_in_reach(identity_id, caller=caller)
            seen_message(identity.id, message_id)
            return identity.id

        def settle(asked: Resolution) -> Answer:
            found = find()
            resolve(message_id, outcome=asked.outcome, actor_key_id=caller.key_id)
            body = message_json(message_of(found, message_id))
            return Answer(body, status=200, kept={name: body[name] for name in MOVED})

        return answer_once(
            request,
            Resolution,
            settle,
            reach=find,
            again=lambda kept: {**message_json(message_of(find(), message_id)), **kept},
        )


class AttemptsView(ApiView):
    """The transport attempts of one message."""

    @described(
        operation_id="listAttempts",
        tags=["messages"],
        parameters=PageQuery.parameters(),
        examples=[ATTEMPTS],
        responses={200: AttemptPage, **refusals({404: NO_MESSAGE})},
    )
    def get(self, request: Request, identity_id: str, message_id: str) -> Response:
        """List each conversation with a transport, oldest first."""
        identity = identity_in_reach(identity_id, caller=caller_of(request))
        message = seen_message(identity.id, message_id)
        query = PageQuery.parse(request.query_params)
        tried = Attempt.objects.filter(message=message)
        page = page_of(tried, request, query=query, render=attempt_json, order=["n"])
        return Response(page)
