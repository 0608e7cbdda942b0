"""The audit log over HTTP: who did what, for those whose it is."""

from typing import Annotated, Any

from django.db.models import QuerySet
from pydantic import Field
from rest_framework.request import Request
from rest_framework.response import Response

from core.described import described
from core.errors import ScopeDenied
from core.forms import Instant, PageQuery
from core.schemas import refusals
from core.views import ApiView
from mailboxes.api.tenant_schemas import AuditPage
from mailboxes.callers import Caller, caller_of
from mailboxes.models import AuditRow
from mailboxes.paging import page_of
from mailboxes.services import render_instant

FILTERS = {
    "action": "action",
    "target_id": "target_id",
    "actor_key_id": "actor_key_id",
    "tenant_id": "tenant_id",
    "after": "created_at__gt",
    "before": "created_at__lt",
}
"""What each parameter asks of a row."""


class AuditQuery(PageQuery):
    """Which rows: those that meet all of it."""

    action: Annotated[
        str | None, Field(description="E.g. `tenant.suspend`.", max_length=200)
    ] = None
    target_id: Annotated[
        str | None, Field(description="What it was done to.", max_length=200)
    ] = None
    actor_key_id: Annotated[
        str | None, Field(description="The key that did it.", max_length=200)
    ] = None
    tenant_id: Annotated[
        str | None, Field(description="For platform keys.", max_length=200)
    ] = None
    after: Annotated[Instant | None, Field(description="Later than this instant.")] = (
        None
    )
    before: Annotated[
        Instant | None, Field(description="Earlier than this instant.")
    ] = None


class AuditEventsView(ApiView):
    """The audit log."""

    @described(
        operation_id="listAuditEvents",
        tags=["audit"],
        parameters=AuditQuery.parameters(),
        responses={
            200: AuditPage,
            **refusals(
                {
                    403: "`permission_denied`, `scope_denied`: the level of the key, or"
                    " `tenant_id` with a key that is not the platform's."
                }
            ),
        },
    )
    def get(self, request: Request) -> Response:
        """List what was done, newest first; sends are not among it.

        A tenant key sees the rows of its own tenant, whoever did it.
        """
        query = AuditQuery.parse(request.query_params)
        found = _rows(query, caller=caller_of(request))
        return Response(page_of(found, request, query=query, render=audit_json))


def _rows(query: AuditQuery, *, caller: Caller) -> QuerySet[AuditRow]:
    if query.tenant_id is not None and caller.tenant_id is not None:
        raise ScopeDenied(
            "Only a platform key may name a tenant.", details={"field": "tenant_id"}
        )
    asked = {f: getattr(query, name) for name, f in FILTERS.items()}
    found = AuditRow.objects.filter(**{f: v for f, v in asked.items() if v is not None})
    if caller.tenant_id is not None:
        found = found.filter(tenant_id=caller.tenant_id)
    return found


def audit_json(row: AuditRow) -> dict[str, Any]:
    """Return one row as the API shows it."""
    return {
        "id": row.id,
        "tenant_id": row.tenant_id,
        "action": row.action,
        "actor_key_id": row.actor_key_id,
        "actor_user_id": row.actor_user_id,
        "target_type": row.target_type,
        "target_id": row.target_id,
        "details": row.details,
        "request_id": row.request_id,
        "created_at": render_instant(row.created_at),
    }
