"""Tenants: their state, their policy and where each value comes from, suspension."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html

from core.acts import Act, ActingAdmin
from delivery.models import OutboundState
from mailboxes.models import Identity, Tenant
from mailboxes.policy import BUILT_IN
from mailboxes.policy_services import layers_of
from mailboxes.statuses import IdentityStatus, TenantStatus
from mailboxes.tenant_services import resume_tenant, suspend_tenant
from staff.pages.keys import MAKE_FOR_TENANT
from staff.pages.policies import sources_of
from staff.pages.tenant_changes import CHANGE_PLAN, PUT_ON_LIST
from staff.statuses import Duty


def _suspend(tenant: Tenant, answer: Mapping[str, Any]) -> str:
    paused = suspend_tenant(tenant.id)
    return f"It is suspended; {paused} identities were paused with it."


def _resume(tenant: Tenant, answer: Mapping[str, Any]) -> str:
    going_on = resume_tenant(tenant.id)
    return f"It is active again; {going_on} identities go on with it."


def _what_it_stops(tenant: Tenant) -> Iterator[tuple[str, object]]:
    waiting = OutboundState.objects.filter(tenant_id=tenant.id)
    active = Identity.objects.filter(
        tenant_id=tenant.id, status=IdentityStatus.ACTIVE
    ).count()
    yield "Identities that are paused", active
    yield "Queued sends that are canceled", waiting.filter(claim_token=None).count()
    claimed = waiting.exclude(claim_token=None).count()
    yield "Sends in a call, which are not stopped", claimed


def _not_active(tenant: Tenant) -> str:
    return "" if tenant.status == TenantStatus.ACTIVE else "it is suspended already"


def _not_suspended(tenant: Tenant) -> str:
    return "" if tenant.status == TenantStatus.SUSPENDED else "it is not suspended"


SUSPEND: Final = Act(
    name="suspend",
    label="Suspend it",
    permission=Duty.TENANTS.permission,
    what="No send of this tenant is accepted any more, and what waits is canceled.",
    run=_suspend,
    refused=_not_active,
    facts=_what_it_stops,
    is_grave=True,
)
RESUME: Final = Act(
    name="resume",
    label="Resume it",
    permission=Duty.TENANTS.permission,
    what="It may send again, and so may the identities that the suspension paused."
    " What was canceled stays canceled.",
    run=_resume,
    refused=_not_suspended,
)


@admin.register(Tenant)
class TenantAdmin(ActingAdmin):
    """A customer, its mode and its policy."""

    acts = (SUSPEND, RESUME, CHANGE_PLAN, PUT_ON_LIST, MAKE_FOR_TENANT)
    change_form_template = "staff/tenant.html"
    list_display = ("slug", "mode", "status", "timezone", "created_at")
    list_filter = ("mode", "status")
    ordering = ("-created_at", "id")
    exact_search = ("id", "slug")
    exclude = ("policy", "policy_ceilings")
    readonly_fields = ("allowances",)

    @admin.display(description="allowances, caps and use")
    def allowances(self, tenant: Tenant) -> str:
        """Return the link to the tenant's account."""
        where = reverse("admin:quota_quotaaccount_change", args=(tenant.pk,))
        return format_html('<a class="underline" href="{}">Look at them</a>', where)

    def known(self, request: HttpRequest, record: Tenant) -> dict[str, Any]:
        """Return the tenant's policy, value by value."""
        return {"policy": _policy(record)}


def _policy(tenant: Tenant) -> list[tuple[str, object, str]]:
    layers = layers_of(tenant)
    named = {
        "built in": BUILT_IN,
        "this deployment": layers.deployment,
        "this tenant": layers.overrides,
    }
    return sources_of(named)
