"""The feed of events over HTTP."""

from typing import Annotated

from django.db.models import QuerySet
from pydantic import AfterValidator, Field, WithJsonSchema
from rest_framework.request import Request
from rest_framework.response import Response

from core.described import described
from core.forms import PageQuery
from core.ids import ID_PATTERN
from core.schemas import refusals
from core.views import ApiView
from mailboxes.callers import Caller, caller_of
from mailboxes.models import Event
from mailboxes.paging import page_of
from webhooks.api.schemas import EventPage
from webhooks.catalogue import EVENT_TYPES
from webhooks.feed import after, check_type, events_in_reach, of_message


def _known(event_type: str) -> str:
    if event_type not in EVENT_TYPES:
        raise ValueError("there is no such type of event")
    return event_type


EventType = Annotated[
    str,
    AfterValidator(_known),
    WithJsonSchema({"type": "string", "enum": sorted(EVENT_TYPES)}),
]


class EventsQuery(PageQuery):
    """Which events: those that meet all of it."""

    type: Annotated[EventType | None, Field(description="Exactly this type.")] = None
    identity_id: Annotated[
        str | None,
        Field(pattern=ID_PATTERN.format(prefix="idn"), description="Of this identity."),
    ] = None
    message_id: Annotated[
        str | None,
        Field(
            pattern=ID_PATTERN.format(prefix="msg"),
            description="Of this message, and of what was suppressed because of it.",
        ),
    ] = None
    after_id: Annotated[
        str | None,
        Field(
            pattern=ID_PATTERN.format(prefix="evt"),
            description="The last event that was seen; what follows it comes.",
        ),
    ] = None


class EventsView(ApiView):
    """The feed."""

    @described(
        operation_id="listEvents",
        tags=["events"],
        parameters=EventsQuery.parameters(),
        responses={
            200: EventPage,
            **refusals(
                {
                    403: "`permission_denied`: `type` is one of messages, and the key"
                    " lacks `messages:read`.",
                    410: "`cursor_expired`: the cursor is too old, or the event of"
                    " `after_id` is not kept; read again from the first page.",
                }
            ),
        },
    )
    def get(self, request: Request) -> Response:
        """List events, oldest first, as far as the key reaches.

        A new event comes after every one that was ever shown. Resume with `after_id`;
        `cursor` pages within one read. Without `messages:read`, the key is not shown
        those of messages. An event may be shown again after a restore: its `id` is the
        same.
        """
        query = EventsQuery.parse(request.query_params)
        found = _events(query, caller=caller_of(request))
        page = page_of(
            found.only("payload", "position"),
            request,
            query=query,
            render=lambda event: event.payload,
            order=("position",),
        )
        return Response(page)


def _events(query: EventsQuery, *, caller: Caller) -> QuerySet[Event]:
    if query.type is not None:
        check_type(query.type, caller=caller)
    found = events_in_reach(caller)
    if query.after_id is not None and query.cursor is None:  # a cursor is past it
        found = after(found, query.after_id)
    if query.type is not None:
        found = found.filter(type=query.type)
    if query.identity_id is not None:
        found = found.filter(identity_id=query.identity_id)
    if query.message_id is not None:
        found = of_message(found, query.message_id)
    return found
