"""Tenants over HTTP: made, listed, changed, stopped and resumed."""

from functools import partial

from django.db import transaction
from rest_framework.request import Request
from rest_framework.response import Response

from core.bodies import read_json
from core.clock import database_now
from core.described import described
from core.schemas import refusals
from core.views import ApiView
from mailboxes.api.once import KEY_HEADER, Answer, answer_once
from mailboxes.api.policies import NO_TENANT, POLICY_REFUSALS
from mailboxes.api.tenant_changes import change_tenant, tenant_json
from mailboxes.api.tenant_schemas import (
    ACME,
    SUSPEND,
    TenantCreate,
    TenantOut,
    TenantPage,
    TenantPatch,
    TenantQuery,
)
from mailboxes.callers import caller_of
from mailboxes.models import Tenant
from mailboxes.paging import page_of
from mailboxes.selectors import tenant_in_reach
from mailboxes.statuses import TenantMode
from mailboxes.tenant_services import NewTenant, make_tenant
from quota.provisioning import open_account


class TenantsView(ApiView):
    """The tenants of the deployment."""

    @described(
        operation_id="createTenant",
        tags=["tenants"],
        request=TenantCreate,
        parameters=[KEY_HEADER],
        examples=[ACME],
        responses={
            201: TenantOut,
            **refusals(
                {
                    409: "`slug_taken`, `suffix_taken`, `idempotency_conflict`,"
                    " `request_in_progress`."
                }
            ),
        },
    )
    def post(self, request: Request) -> Response:
        """Make a tenant, with its quota account and no key yet."""

        def make(form: TenantCreate) -> Answer:
            new = NewTenant(
                slug=form.slug,
                name=form.name or form.slug,
                mode=TenantMode(form.mode),
                suffix=form.address_suffix,
                timezone=form.timezone,
            )
            tenant = make_tenant(new, actor_key_id=caller_of(request).key_id)
            open_account(tenant.id)
            return Answer(tenant_json(tenant, now=database_now()))

        return answer_once(request, TenantCreate, make)

    @described(
        operation_id="listTenants",
        tags=["tenants"],
        parameters=TenantQuery.parameters(),
        responses=TenantPage,
    )
    def get(self, request: Request) -> Response:
        """List the tenants, newest first."""
        query = TenantQuery.parse(request.query_params)
        asked = {"status": query.status, "mode": query.mode}
        found = Tenant.objects.filter(**{n: v for n, v in asked.items() if v})
        render = partial(tenant_json, now=database_now())
        return Response(page_of(found, request, query=query, render=render))


class TenantView(ApiView):
    """One tenant."""

    @described(
        operation_id="getTenant",
        tags=["tenants"],
        responses={200: TenantOut, **refusals({404: NO_TENANT})},
    )
    def get(self, request: Request, tenant_id: str) -> Response:
        """Return a tenant; a tenant key may read its own."""
        tenant = tenant_in_reach(tenant_id, caller=caller_of(request))
        return Response(tenant_json(tenant, now=database_now()))

    @described(
        operation_id="changeTenant",
        tags=["tenants"],
        request=TenantPatch,
        examples=[SUSPEND],
        responses={200: TenantOut, **POLICY_REFUSALS},
    )
    def patch(self, request: Request, tenant_id: str) -> Response:
        """Change name, time zone, policy or status, all of it or nothing.

        A suspension pauses each active identity and refuses sends from then on; what
        is still queued is not sent. Resuming undoes those pauses and no others.
        """
        caller = caller_of(request)
        tenant = tenant_in_reach(tenant_id, caller=caller)
        form = TenantPatch.parse(read_json(request._request))
        with transaction.atomic(durable=True):
            change_tenant(tenant, form, caller=caller)
        tenant.refresh_from_db()
        return Response(tenant_json(tenant, now=database_now()))
