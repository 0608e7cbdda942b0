"""Usage over HTTP: how the plan stands, and what was used day by day."""

from typing import Final

from rest_framework.request import Request
from rest_framework.response import Response

from core.clock import database_now
from core.described import described
from core.errors import InvalidRequest
from core.schemas import refusals
from core.views import ApiView
from mailboxes.callers import Caller, caller_of
from mailboxes.models import Tenant
from mailboxes.selectors import tenant_in_reach
from quota.api.usage_schemas import (
    DailyUsageOut,
    DailyUsageQuery,
    UsageOut,
    UsageQuery,
)
from quota.usage_selectors import days_json, usage_json

NO_TENANT: Final = refusals(
    {
        400: "`invalid_request`; a platform key has to name the tenant.",
        404: "`tenant_not_found`: no such tenant, or out of the key's reach.",
    }
)


class UsageView(ApiView):
    """How a tenant's plan stands."""

    @described(
        operation_id="getUsage",
        tags=["billing"],
        parameters=UsageQuery.parameters(),
        responses={200: UsageOut, **NO_TENANT},
    )
    def get(self, request: Request) -> Response:
        """Return how much of each feature is granted, used and left.

        `sends` counts recipients that a transport accepted; daily caps count accepted
        messages.
        """
        query = UsageQuery.parse(request.query_params)
        tenant = _tenant(query, caller=caller_of(request))
        return Response(usage_json(tenant.id, now=database_now()))


class DailyUsageView(ApiView):
    """What a tenant used, day by day."""

    @described(
        operation_id="listDailyUsage",
        tags=["billing"],
        parameters=DailyUsageQuery.parameters(),
        responses={200: DailyUsageOut, **NO_TENANT},
    )
    def get(self, request: Request) -> Response:
        """List what was used on each day, in UTC; of today, about an hour late."""
        query = DailyUsageQuery.parse(request.query_params)
        tenant = _tenant(query, caller=caller_of(request))
        first, last = query.days(today=database_now().date())
        return Response({"data": days_json(tenant.id, first, last)})


def _tenant(query: UsageQuery, *, caller: Caller) -> Tenant:
    """Return whose usage is asked for; raises TenantNotFound, InvalidRequest."""
    tenant_id = query.tenant_id or caller.tenant_id
    if tenant_id is None:
        raise InvalidRequest.at("tenant_id", "A platform key names the tenant.")
    return tenant_in_reach(tenant_id, caller=caller)
