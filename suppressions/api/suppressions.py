"""Suppressions of a tenant: listed, made by hand, lifted. No address is shown."""

from typing import Any, Final

from drf_spectacular.utils import OpenApiExample
from rest_framework.request import Request
from rest_framework.response import Response

from core.addresses import normalize_at
from core.bodies import read_optional_json
from core.clock import database_now
from core.described import described
from core.hashing import address_hash
from core.schemas import refusals
from core.views import ApiView
from mailboxes.api.once import KEY_HEADER, Answer, answer_once
from mailboxes.callers import caller_of
from mailboxes.paging import page_of
from mailboxes.selectors import tenant_in_reach
from mailboxes.services import render_instant
from suppressions.api.schemas import (
    LiftForm,
    SuppressionForm,
    SuppressionOut,
    SuppressionPage,
    SuppressionQuery,
)
from suppressions.models import Suppression
from suppressions.services import NewSuppression, lift, suppress_by_hand
from suppressions.statuses import SuppressionReason

NO_ADDRESS: Final = "`address_invalid`, `address_unsupported`, or `invalid_request`."
NO_TENANT: Final = "`tenant_not_found`: no such tenant, or out of the key's reach."
ASKED: Final = OpenApiExample(
    "By hand",
    value={"address": "jo@example.net", "note": "asked by phone"},
    request_only=True,
)


class SuppressionsView(ApiView):
    """The addresses that a tenant must not write to."""

    @described(
        operation_id="createSuppression",
        tags=["suppressions"],
        request=SuppressionForm,
        parameters=[KEY_HEADER],
        examples=[ASKED],
        responses={
            200: SuppressionOut,
            201: SuppressionOut,
            **refusals(
                {400: f"{NO_ADDRESS} `invalid_idempotency_key`.", 404: NO_TENANT}
            ),
        },
    )
    def post(self, request: Request, tenant_id: str) -> Response:
        """Suppress an address for good: 201.

        One that is suppressed already keeps its row, its reason and its note: 200.
        """
        caller = caller_of(request)
        tenant_in_reach(tenant_id, caller=caller)

        def make(form: SuppressionForm) -> Answer:
            row, is_new = suppress_by_hand(
                NewSuppression(
                    normalize_at(form.address, "address"),
                    SuppressionReason(form.reason),
                    form.note,
                ),
                tenant_id=tenant_id,
                actor_key_id=caller.key_id,
                now=database_now(),
            )
            return Answer(render_suppression(row), status=201 if is_new else 200)

        return answer_once(request, SuppressionForm, make)

    @described(
        operation_id="listSuppressions",
        tags=["suppressions"],
        parameters=SuppressionQuery.parameters(),
        responses={200: SuppressionPage, **refusals({400: NO_ADDRESS, 404: NO_TENANT})},
    )
    def get(self, request: Request, tenant_id: str) -> Response:
        """List suppressions, newest first; ask for one by its address."""
        tenant_in_reach(tenant_id, caller=caller_of(request))
        query = SuppressionQuery.parse(request.query_params)
        found = Suppression.objects.filter(tenant_id=tenant_id)
        if query.address is not None:
            address = normalize_at(query.address, "address")
            found = found.filter(address_hash=address_hash(address))
        if query.reason is not None:
            found = found.filter(reason=query.reason)
        return Response(page_of(found, request, query=query, render=render_suppression))


class SuppressionView(ApiView):
    """One address that a tenant must not write to."""

    @described(
        operation_id="deleteSuppression",
        tags=["suppressions"],
        request=LiftForm,
        responses={
            204: None,
            **refusals(
                {
                    400: f"{NO_ADDRESS} Path `confirm_complaint_removal`: it was a"
                    " complaint, and the body does not say `true`.",
                    404: f"`suppression_not_found`. {NO_TENANT}",
                }
            ),
        },
    )
    def delete(self, request: Request, tenant_id: str, address: str) -> Response:
        """Let an address be written to again, from the next submit on.

        Lifting a complaint takes a body: `{"confirm_complaint_removal": true}`.
        """
        caller = caller_of(request)
        tenant_in_reach(tenant_id, caller=caller)
        form = LiftForm.parse(read_optional_json(request._request))
        lift(
            normalize_at(address, "address"),
            tenant_id=tenant_id,
            confirms_complaint=form.confirm_complaint_removal,
            actor_key_id=caller.key_id,
        )
        return Response(status=204)


def render_suppression(row: Suppression) -> dict[str, Any]:
    """Return a suppression as the API shows it (REST contract, section 2.9)."""
    return {
        "address_hint": row.address_hint,
        "reason": row.reason,
        "note": row.note,
        "created_at": render_instant(row.created_at),
        "expires_at": render_instant(row.expires_at) if row.expires_at else None,
    }
