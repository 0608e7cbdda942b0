"""The threads of a mailbox over HTTP."""

from collections.abc import Callable
from typing import Final

from rest_framework.request import Request
from rest_framework.response import Response

from core.bodies import read_json
from core.clock import elapsed_clock
from core.described import described
from core.errors import Unavailable
from core.schemas import refusals
from core.views import ApiView
from mailboxes.callers import caller_of
from mailboxes.filing_services import file_thread
from mailboxes.mail_selectors import seen_thread
from mailboxes.models import Message
from mailboxes.paging import page_of
from mailboxes.selectors import identity_in_reach, live_identity_in_reach
from outbound.api.changes import ThreadChanges
from outbound.api.examples import THREAD_FILED
from outbound.api.includes import included
from outbound.api.queries import ThreadQuery, ThreadsQuery
from outbound.api.reading import listed_messages, message_json, messages_of
from outbound.api.schemas import ThreadOut, ThreadPage, ThreadWithMessages
from outbound.api.thread_reading import thread_json, thread_of, threads_found
from outbound.serializers import Json

NO_IDENTITY: Final = "`identity_not_found`."
NO_THREAD: Final = "`identity_not_found`, `thread_not_found`."


PATIENCE_SECONDS = 10.0
"""How long the copies of a page may take; those that were made by then are kept."""


def _rendering(query: ThreadQuery) -> Callable[[Message], Json]:
    """Return how each message of a page is shown; Unavailable when that takes long."""
    until = elapsed_clock() + PATIENCE_SECONDS

    def render(message: Message) -> Json:
        if elapsed_clock() > until:
            raise Unavailable("What to include is still being made; some of it is.")
        more = included(message, query)  # first: what is made may add a flag
        return {**message_json(message), **more}

    return render


class ThreadsView(ApiView):
    """The threads of an identity."""

    @described(
        operation_id="listThreads",
        tags=["threads"],
        parameters=ThreadsQuery.parameters(),
        responses={200: ThreadPage, **refusals({404: NO_IDENTITY})},
    )
    def get(self, request: Request, identity_id: str) -> Response:
        """List the threads of an identity, the one with the newest message first."""
        identity = identity_in_reach(identity_id, caller=caller_of(request))
        query = ThreadsQuery.parse(request.query_params)
        found = threads_found(identity.id, query)
        newest = ("-last_at", "-public_id")
        page = page_of(found, request, query=query, render=thread_json, order=newest)
        return Response(page)


class ThreadView(ApiView):
    """One thread."""

    @described(
        operation_id="getThread",
        tags=["threads"],
        parameters=ThreadQuery.parameters(),
        responses={200: ThreadWithMessages, **refusals({404: NO_THREAD})},
    )
    def get(self, request: Request, identity_id: str, thread_id: str) -> Response:
        """Return a thread and its messages, oldest first.

        With the cursor of one answer the next has the messages that follow; the thread
        itself is shown each time, as it is by then. `include` adds to each message; a
        page whose HTML takes long to copy is a 503, and a repeat goes on from there.
        """
        identity = identity_in_reach(identity_id, caller=caller_of(request))
        thread = thread_of(identity.id, thread_id)
        query = ThreadQuery.parse(request.query_params)
        listed = listed_messages if query.include is None else messages_of
        page = page_of(
            listed(identity.id).filter(thread=thread),
            request,
            query=query.page(),
            render=_rendering(query),
            order=("received_at", "public_id"),
        )
        rest = {"messages": page["data"], "next_cursor": page["next_cursor"]}
        return Response({**thread_json(thread), **rest})

    @described(
        operation_id="updateThread",
        tags=["threads"],
        request=ThreadChanges,
        examples=[THREAD_FILED],
        responses={200: ThreadOut, **refusals({404: NO_THREAD})},
    )
    def patch(self, request: Request, identity_id: str, thread_id: str) -> Response:
        """File a thread: labels and `read` are said of each message that is in it now.

        A message that comes later brings its own labels, and mail that comes in is
        unread. `archived` belongs to the thread.
        """
        caller = caller_of(request)
        identity = live_identity_in_reach(identity_id, caller=caller)
        seen_thread(identity.id, thread_id)  # what is not there has no wrong fields
        changes = ThreadChanges.parse(read_json(request._request))
        file_thread(
            identity.id, thread_id, changes.filing(), actor_key_id=caller.key_id
        )
        return Response(thread_json(thread_of(identity.id, thread_id)))
