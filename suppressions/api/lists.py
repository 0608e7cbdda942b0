"""The send lists of a tenant: what it allows and blocks, address or domain."""

from typing import Any, Final

from drf_spectacular.utils import OpenApiExample
from rest_framework.request import Request
from rest_framework.response import Response

from core.bodies import read_optional_json
from core.described import described
from core.errors import RouteNotFound
from core.forms import Nothing, PageQuery
from core.schemas import refusals
from core.views import ApiView
from mailboxes.callers import caller_of
from mailboxes.paging import page_of
from mailboxes.selectors import tenant_in_reach
from mailboxes.services import render_instant
from suppressions.api.schemas import (
    ListEntryForm,
    ListEntryOut,
    ListEntryPage,
)
from suppressions.list_services import (
    SendList,
    entry_form,
    find_entry,
    put_entry,
    remove_entry,
)
from suppressions.models import SendListEntry
from suppressions.statuses import ListDirection, ListKind

NO_ENTRY: Final = "`address_invalid`, `address_unsupported`, or `invalid_request`."
NO_TENANT: Final = (
    "`tenant_not_found`; `route_not_found` for a list that does not exist."
)
NOT_THERE: Final = f"`list_entry_not_found`. {NO_TENANT}"


class SendListView(ApiView):
    """One of the four lists of a tenant."""

    @described(
        operation_id="getSendList",
        tags=["lists"],
        parameters=PageQuery.parameters(),
        responses={200: ListEntryPage, **refusals({404: NO_TENANT})},
    )
    def get(
        self, request: Request, tenant_id: str, direction: str, kind: str
    ) -> Response:
        """List the entries of a list, newest first."""
        found = _send_list(request, tenant_id, direction, kind).entries()
        query = PageQuery.parse(request.query_params)
        return Response(page_of(found, request, query=query, render=render_entry))


class SendListEntryView(ApiView):
    """One entry of a list."""

    @described(
        operation_id="getSendListEntry",
        tags=["lists"],
        responses={200: ListEntryOut, **refusals({400: NO_ENTRY, 404: NOT_THERE})},
    )
    def get(
        self, request: Request, tenant_id: str, direction: str, kind: str, entry: str
    ) -> Response:
        """Return an entry, found in any spelling of its address."""
        found = _send_list(request, tenant_id, direction, kind)
        return Response(render_entry(find_entry(found, entry_form(entry))))

    @described(
        operation_id="putSendListEntry",
        tags=["lists"],
        request=ListEntryForm,
        examples=[
            OpenApiExample("A note", value={"note": "competitor"}, request_only=True),
        ],
        responses={200: ListEntryOut, **refusals({400: NO_ENTRY, 404: NO_TENANT})},
    )
    def put(
        self, request: Request, tenant_id: str, direction: str, kind: str, entry: str
    ) -> Response:
        """Put `user@domain` or `@domain` on a list; it counts for the next submit."""
        found = _send_list(request, tenant_id, direction, kind)
        form = ListEntryForm.parse(read_optional_json(request._request))
        row = put_entry(
            found,
            entry_form(entry),
            note=form.note,
            actor_key_id=caller_of(request).key_id,
        )
        return Response(render_entry(row))

    @described(
        operation_id="deleteSendListEntry",
        tags=["lists"],
        responses={204: None, **refusals({400: NO_ENTRY, 404: NOT_THERE})},
    )
    def delete(
        self, request: Request, tenant_id: str, direction: str, kind: str, entry: str
    ) -> Response:
        """Take an entry off a list; it counts for the next submit."""
        found = _send_list(request, tenant_id, direction, kind)
        Nothing.parse(read_optional_json(request._request))
        actor = caller_of(request).key_id
        remove_entry(found, entry_form(entry), actor_key_id=actor)
        return Response(status=204)


def _send_list(request: Request, tenant_id: str, direction: str, kind: str) -> SendList:
    tenant_in_reach(tenant_id, caller=caller_of(request))
    if direction not in ListDirection.values or kind not in ListKind.values:
        raise RouteNotFound("The lists are receive or send, allow or block.")
    return SendList(tenant_id, ListDirection(direction), ListKind(kind))


def render_entry(row: SendListEntry) -> dict[str, Any]:
    """Return an entry as the API shows it (REST contract, section 2.9)."""
    return {
        "direction": row.direction,
        "kind": row.kind,
        "entry": row.entry,
        "note": row.note,
        "created_at": render_instant(row.created_at),
    }
