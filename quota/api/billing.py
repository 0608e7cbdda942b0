"""Plans over HTTP: what there is, and what a tenant is on."""

from typing import Any, Final

from rest_framework.request import Request
from rest_framework.response import Response

from core.bodies import read_json
from core.clock import database_now
from core.described import described
from core.schemas import refusals
from core.views import ApiView
from mailboxes.callers import caller_of
from mailboxes.selectors import tenant_in_reach
from mailboxes.services import render_instant
from quota.api.schemas import TEAM, BillingOut, BillingPatch, PlansOut
from quota.billing_services import BillingChange, change_billing
from quota.models import QuotaAccount
from quota.periods import Period
from quota.plans import catalogue, mode_in_force
from quota.statuses import BillingMode

NO_TENANT: Final = refusals(
    {404: "`tenant_not_found`: no such tenant, or out of the key's reach."}
)


class PlansView(ApiView):
    """The plan catalogue, for whoever asks."""

    authentication_classes = []
    permission_classes = []
    throttle_classes = []

    @described(operation_id="listPlans", tags=["billing"], auth=[], responses=PlansOut)
    def get(self, request: Request) -> Response:
        """Return the plans of this deployment, and what each includes.

        `sends` counts recipients a month; the others count what is there.
        """
        return Response(catalogue().model_dump(mode="json"))


class BillingView(ApiView):
    """What one tenant is on."""

    @described(
        operation_id="getBilling",
        tags=["billing"],
        responses={200: BillingOut, **NO_TENANT},
    )
    def get(self, request: Request, tenant_id: str) -> Response:
        """Return a tenant's mode, plan and top-ups."""
        tenant = tenant_in_reach(tenant_id, caller=caller_of(request))
        return Response(_billing_json(tenant.id))

    @described(
        operation_id="changeBilling",
        tags=["billing"],
        request=BillingPatch,
        examples=[TEAM],
        responses={200: BillingOut, **NO_TENANT},
    )
    def patch(self, request: Request, tenant_id: str) -> Response:
        """Change a tenant's mode, plan or top-ups: all of it, or nothing.

        What is granted changes at once, and what was used stays. Nothing is deleted:
        after a smaller plan, more is refused until the period ends or less is there.
        """
        caller = caller_of(request)
        tenant = tenant_in_reach(tenant_id, caller=caller)
        form = BillingPatch.parse(read_json(request._request))
        change_billing(tenant.id, _change_of(form), actor_key_id=caller.key_id)
        return Response(_billing_json(tenant.id))


def _change_of(form: BillingPatch) -> BillingChange:
    given = form.given()
    return BillingChange(
        mode=BillingMode(form.mode) if "mode" in given else None,
        plan_id=given.get("plan_id"),
        topups=form.topups.given() if "topups" in given else {},
        period_start=given.get("period_start"),
        past_due_since=given.get("past_due_since"),
        is_paid="past_due_since" in given and form.past_due_since is None,
    )


def _billing_json(tenant_id: str) -> dict[str, Any]:
    account = QuotaAccount.objects.get(tenant_id=tenant_id)
    due = account.past_due_since
    period = Period(account.period_start, account.period_end).at(database_now())
    return {
        "mode": mode_in_force(account.mode),
        "plan_id": account.plan_id,
        "topups": {"sends": 0, "inboxes": 0, **account.topups},
        "period_start": render_instant(period.start),
        "past_due_since": due and render_instant(due),
    }
