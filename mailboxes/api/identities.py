"""Identities over HTTP: parse, call a service, render."""

from typing import Any, Final

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiExample
from rest_framework.request import Request
from rest_framework.response import Response

from core.addresses import normalize_at
from core.bodies import read_json, read_optional_json
from core.described import described
from core.errors import IdentityNotFound
from core.fingerprint import fingerprint
from core.forms import Nothing
from core.schemas import NO_BODY, refusals
from core.views import ApiView
from domains.selectors import seen_by_addresses, tenant_domain
from domains.services import ensure_platform_domain
from mailboxes.api.identity_schemas import (
    IdentityCreate,
    IdentityOut,
    IdentityPage,
    IdentityPatch,
    IdentityQuery,
    LookupQuery,
)
from mailboxes.api.once import KEY_HEADER, Answer, answer_once
from mailboxes.callers import Caller, caller_of
from mailboxes.identity_rules import NewIdentity, check_daily_cap
from mailboxes.identity_services import (
    create_identity,
    delete_identity,
    made_before,
    update_identity,
)
from mailboxes.models import Identity, Tenant
from mailboxes.paging import page_of
from mailboxes.policy import effective_policy
from mailboxes.selectors import (
    identities_in_reach,
    identity_in_reach,
    live_identity_in_reach,
    tenant_in_reach,
)
from mailboxes.services import hold_names
from mailboxes.shown import identity_json
from mailboxes.statuses import AddressStatus, IdentityStatus, KeyLevel
from quota.billing_services import tell_of_limit
from quota.counts import count_gone, count_new
from quota.errors import BillingLimit
from quota.statuses import Feature

TAGS: Final = ["identities"]
_NEW: Final = OpenApiExample("A desk", value=IdentityCreate.example, request_only=True)
_CHANGED: Final = OpenApiExample(
    "Another name, and no purpose", value=IdentityPatch.example, request_only=True
)


class TenantIdentitiesView(ApiView):
    """The identities of one tenant."""

    @described(
        operation_id="createIdentity",
        tags=TAGS,
        request=IdentityCreate,
        examples=[_NEW],
        parameters=[KEY_HEADER],
        responses={
            201: IdentityOut,
            200: IdentityOut,
            **refusals(
                {
                    400: "`invalid_request`, `invalid_idempotency_key`; the name:"
                    " `address_invalid`, `address_unsupported`, `address_reserved`,"
                    " `local_part_too_long`.",
                    402: "`billing_limit`: the plan has no room for one more"
                    " (`details.feature`).",
                    403: "`permission_denied`, `scope_denied` (`details.field`,"
                    " `details.ceiling`).",
                    404: "`tenant_not_found`, `domain_not_found`.",
                    409: "`client_id_conflict`, `username_taken`, `address_taken`,"
                    " `domain_not_ready`, `idempotency_conflict`,"
                    " `request_in_progress`.",
                }
            ),
        },
    )
    def post(self, request: Request, tenant_id: str) -> Response:
        """Make an identity with its addresses.

        It gets an address on the platform's domain for life; with `domain_id`, its
        primary address is on that domain. The same body under the same `client_id`
        gets the identity that it made before (200).
        """
        caller = caller_of(request)

        def create(form: IdentityCreate) -> Answer:
            tenant = tenant_in_reach(tenant_id, caller=caller)
            identity, is_new = _made(tenant, form, caller)
            return Answer(identity_json(identity), status=201 if is_new else 200)

        try:
            return answer_once(
                request,
                IdentityCreate,
                create,
                reach=lambda: tenant_in_reach(tenant_id, caller=caller),
            )
        except BillingLimit as refused:
            tell_of_limit(refused)  # what was made is undone
            raise

    @described(
        operation_id="listIdentitiesOfTenant",
        tags=TAGS,
        parameters=IdentityQuery.parameters(),
        responses={200: IdentityPage, **refusals({404: "`tenant_not_found`."})},
    )
    def get(self, request: Request, tenant_id: str) -> Response:
        """List the identities of one tenant that the key reaches, newest first."""
        caller = caller_of(request)
        tenant = tenant_in_reach(tenant_id, caller=caller)
        return _page(request, identities_in_reach(caller).filter(tenant=tenant))


class IdentitiesView(ApiView):
    """The identities of all tenants that the key reaches."""

    @described(
        operation_id="listIdentities",
        tags=TAGS,
        parameters=IdentityQuery.parameters(),
        responses=IdentityPage,
    )
    def get(self, request: Request) -> Response:
        """List the identities that the key reaches, newest first."""
        return _page(request, identities_in_reach(caller_of(request)))


class LookupView(ApiView):
    """Whose an address is."""

    @described(
        operation_id="lookUpIdentity",
        tags=TAGS,
        parameters=LookupQuery.parameters(),
        responses={
            200: IdentityOut,
            **refusals(
                {
                    400: "`invalid_request`, `address_invalid`, `address_unsupported`.",
                    404: "`identity_not_found`: nobody's, or out of the key's reach.",
                }
            ),
        },
    )
    def get(self, request: Request) -> Response:
        """Return the identity that has an address which is active or retiring."""
        query = LookupQuery.parse(request.query_params)
        answering = (AddressStatus.ACTIVE, AddressStatus.RETIRING)
        found = identities_in_reach(caller_of(request)).filter(
            addresses__address=normalize_at(query.address, "address"),
            addresses__status__in=answering,
        )
        if (identity := found.first()) is None:
            raise IdentityNotFound("No such identity.")
        return Response(identity_json(identity))


class IdentityView(ApiView):
    """One identity."""

    @described(
        operation_id="getIdentity",
        tags=TAGS,
        responses={200: IdentityOut, **refusals({404: "`identity_not_found`."})},
    )
    def get(self, request: Request, identity_id: str) -> Response:
        """Return one identity with its addresses."""
        identity = identity_in_reach(identity_id, caller=caller_of(request))
        return Response(identity_json(identity))

    @described(
        operation_id="updateIdentity",
        tags=TAGS,
        request=IdentityPatch,
        examples=[_CHANGED],
        responses={
            200: IdentityOut,
            **refusals(
                {
                    403: "`permission_denied`, `scope_denied` (`details.field`).",
                    404: "`identity_not_found`.",
                    409: "`identity_paused`: its tenant is suspended.",
                }
            ),
        },
    )
    def patch(self, request: Request, identity_id: str) -> Response:
        """Change the fields that are named; `null` resets one. Pause, or resume.

        `send_policy` changes rule by rule; every other object is replaced whole.
        """
        caller = caller_of(request)
        live_identity_in_reach(identity_id, caller=caller)
        form = IdentityPatch.parse(read_json(request._request))
        with transaction.atomic(durable=True):
            identity = live_identity_in_reach(identity_id, caller=caller)
            check_daily_cap(form.changes(), ceiling=_ceiling(identity.tenant, caller))
            identity = update_identity(
                identity_id,
                form.changes(),
                status=_named_status(form),
                may_lift_abuse=caller.level != KeyLevel.IDENTITY,
                actor_key_id=caller.key_id,
            )
            shown = identity_json(identity)
        return Response(shown)

    @described(
        operation_id="deleteIdentity",
        tags=TAGS,
        request=None,
        responses={
            202: IdentityOut,
            200: IdentityOut,
            **refusals(
                {
                    400: NO_BODY,
                    404: "`identity_not_found`.",
                }
            ),
        },
    )
    def delete(self, request: Request, identity_id: str) -> Response:
        """Delete an identity: its addresses and keys end at once, its messages stay.

        It is `deleting` (202) until nothing of it is queued: what is not sent yet is
        canceled. Nobody ever gets its addresses again. A repeat is answered 200.
        """
        caller = caller_of(request)
        identity_in_reach(identity_id, caller=caller)
        Nothing.parse(read_optional_json(request._request))
        with transaction.atomic(durable=True):
            is_new = delete_identity(identity_id, actor_key_id=caller.key_id)
            identity = Identity.objects.get(id=identity_id)
            if is_new:
                count_gone(identity.tenant_id, Feature.INBOXES)
            shown = identity_json(identity)
        return Response(shown, status=202 if is_new else 200)


def _made(
    tenant: Tenant, form: IdentityCreate, caller: Caller
) -> tuple[Identity, bool]:
    """Return the identity that a body asks for, and whether it is a new one."""
    body = form.model_dump(exclude_unset=True)
    digest = fingerprint("createIdentity", tenant.id, body)
    hold_names(tenant.id)
    if form.client_id is not None:
        made = made_before(tenant.id, form.client_id, digest)
        if made is not None:
            return made, False
    check_daily_cap(form.changes(), ceiling=_ceiling(tenant, caller))
    own = form.domain_id
    identity = create_identity(
        tenant,
        NewIdentity(form.username, form.changes(), form.client_id, digest),
        platform=seen_by_addresses(ensure_platform_domain()),
        own=None if own is None else tenant_domain(own, tenant_id=tenant.id),
        actor_key_id=caller.key_id,
    )
    count_new(tenant.id, Feature.INBOXES, ref=identity.id)
    return identity, True


def _ceiling(tenant: Tenant, caller: Caller) -> int | None:
    """Return the highest daily cap that the key may give; None: any."""
    if caller.level == KeyLevel.PLATFORM:
        return None
    policy = effective_policy(settings.PM_DEFAULT_POLICY, tenant.policy)
    return int(policy["identity_daily_send_cap"])


def _named_status(form: IdentityPatch) -> IdentityStatus | None:
    named = form.given()
    return IdentityStatus(named["status"]) if "status" in named else None


def _page(request: Request, found: QuerySet[Identity]) -> Response:
    query = IdentityQuery.parse(request.query_params)
    filters: dict[str, Any] = {
        name: value
        for name in ("status", "purpose", "client_id", "tenant_id")
        if (value := getattr(query, name)) is not None
    }
    listed = found.filter(**filters, is_system=False).prefetch_related("addresses")
    return Response(page_of(listed, request, query=query, render=identity_json))
