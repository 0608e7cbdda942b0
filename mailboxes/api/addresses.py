"""Addresses of an identity over HTTP: parse, call a service, render."""

from collections.abc import Callable
from typing import Final

from django.db import transaction
from drf_spectacular.utils import OpenApiExample
from rest_framework.request import Request
from rest_framework.response import Response

from core.bodies import read_optional_json
from core.described import described
from core.forms import Nothing, PageQuery
from core.schemas import NO_BODY, refusals
from core.views import ApiView
from domains.selectors import domain_of_address, tenant_domain
from domains.services import ensure_platform_domain
from mailboxes.address_services import (
    add_address,
    delete_address,
    promote_address,
    retire_address,
)
from mailboxes.api.identity_schemas import (
    AddressCreate,
    AddressOut,
    AddressPage,
    Promotion,
    Retirement,
)
from mailboxes.api.once import KEY_HEADER, Answer, Parses, T, answer_once
from mailboxes.callers import caller_of
from mailboxes.models import Address
from mailboxes.paging import page_of
from mailboxes.selectors import (
    address_in_reach,
    identity_in_reach,
    live_identity_in_reach,
)
from mailboxes.shown import address_json

TAGS: Final = ["addresses"]
NOT_THERE: Final = "`identity_not_found`, `address_not_found`."
REPEATED: Final = "`idempotency_conflict`, `request_in_progress`"


class AddressesView(ApiView):
    """The addresses of an identity."""

    @described(
        operation_id="listAddresses",
        tags=TAGS,
        parameters=PageQuery.parameters(),
        responses={200: AddressPage, **refusals({404: "`identity_not_found`."})},
    )
    def get(self, request: Request, identity_id: str) -> Response:
        """List the addresses of an identity, of every state, newest first."""
        identity = identity_in_reach(identity_id, caller=caller_of(request))
        query = PageQuery.parse(request.query_params)
        found = Address.objects.filter(identity=identity)
        return Response(page_of(found, request, query=query, render=address_json))

    @described(
        operation_id="addAddress",
        tags=TAGS,
        request=AddressCreate,
        examples=[
            OpenApiExample("A desk", value=AddressCreate.example, request_only=True)
        ],
        parameters=[KEY_HEADER],
        responses={
            201: AddressOut,
            **refusals(
                {
                    400: "`invalid_request`, `invalid_idempotency_key`; the local part:"
                    " `address_invalid`, `address_unsupported`, `address_reserved`.",
                    404: "`identity_not_found`, `domain_not_found`.",
                    409: f"`address_taken`, {REPEATED}.",
                    422: "`address_limit_reached`: `details.limit`.",
                }
            ),
        },
    )
    def post(self, request: Request, identity_id: str) -> Response:
        """Add an address on a domain of the tenant, as an alias.

        It is `pending` until the domain is healthy or degraded, and takes the place of
        an older pending one on that domain.
        """
        caller = caller_of(request)

        def add(form: AddressCreate) -> Answer:
            identity = live_identity_in_reach(identity_id, caller=caller)
            address = add_address(
                identity.id,
                form.local_part,
                domain=tenant_domain(form.domain_id, tenant_id=identity.tenant_id),
                actor_key_id=caller.key_id,
            )
            return Answer(address_json(address))

        return answer_once(
            request,
            AddressCreate,
            add,
            reach=lambda: live_identity_in_reach(identity_id, caller=caller),
        )


class AddressView(ApiView):
    """One address."""

    @described(
        operation_id="deleteAddress",
        tags=TAGS,
        request=None,
        responses={
            204: None,
            **refusals(
                {
                    400: NO_BODY,
                    404: NOT_THERE,
                    409: "`address_is_primary`, `address_in_use`.",
                }
            ),
        },
    )
    def delete(self, request: Request, identity_id: str, address_id: str) -> Response:
        """Delete an address that is still pending: it was never used."""
        _address(request, identity_id, address_id)
        Nothing.parse(read_optional_json(request._request))
        with transaction.atomic(durable=True):
            delete_address(
                _address(request, identity_id, address_id),
                platform_id=ensure_platform_domain().id,
                actor_key_id=caller_of(request).key_id,
            )
        return Response(status=204)


class PromoteView(ApiView):
    """Making an address the primary one."""

    @described(
        operation_id="promoteAddress",
        tags=TAGS,
        request=Promotion,
        parameters=[KEY_HEADER],
        responses={
            200: AddressOut,
            **refusals(
                {
                    400: "`invalid_request` (`details.reason`: `address_retired`),"
                    " `invalid_idempotency_key`.",
                    404: NOT_THERE,
                    409: f"`domain_not_ready`, {REPEATED}.",
                }
            ),
        },
    )
    def post(self, request: Request, identity_id: str, address_id: str) -> Response:
        """Make an address the primary one.

        The one before goes on answering its threads for some days, then it is retired.
        It stays an active alias when it is the platform's address, and when the
        promotion goes back: to a retiring address, or to the platform's.
        """

        def promote(form: Promotion) -> Answer:
            address = _address(request, identity_id, address_id)
            promoted = promote_address(
                address,
                domain=domain_of_address(address.domain_id),
                platform_id=ensure_platform_domain().id,
                after_days=form.retire_previous_after_days,
                actor_key_id=caller_of(request).key_id,
            )
            return Answer(address_json(promoted), status=200)

        return _once(request, Promotion, promote, identity_id, address_id)


class RetireView(ApiView):
    """Retiring an address."""

    @described(
        operation_id="retireAddress",
        tags=TAGS,
        request=Retirement,
        parameters=[KEY_HEADER],
        responses={
            200: AddressOut,
            **refusals(
                {
                    400: "`invalid_request` (`details.reason`: `address_pending`),"
                    " `invalid_idempotency_key`.",
                    404: NOT_THERE,
                    409: f"`address_is_primary`, `address_in_use`, {REPEATED}.",
                }
            ),
        },
    )
    def post(self, request: Request, identity_id: str, address_id: str) -> Response:
        """Retire an alias, now or after some days; repeated, it moves the day.

        Until then it still answers the threads that use it. The platform's address
        never retires.
        """

        def retire(form: Retirement) -> Answer:
            retired = retire_address(
                _address(request, identity_id, address_id),
                platform_id=ensure_platform_domain().id,
                after_days=form.after_days,
                actor_key_id=caller_of(request).key_id,
            )
            return Answer(address_json(retired), status=200)

        return _once(request, Retirement, retire, identity_id, address_id)


def _once(
    request: Request,
    form: Parses[T],
    do: Callable[[T], Answer],
    identity_id: str,
    address_id: str,
) -> Response:
    return answer_once(
        request, form, do, reach=lambda: _address(request, identity_id, address_id)
    )


def _address(request: Request, identity_id: str, address_id: str) -> Address:
    identity = live_identity_in_reach(identity_id, caller=caller_of(request))
    return address_in_reach(address_id, identity=identity)
