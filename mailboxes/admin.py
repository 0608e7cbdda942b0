"""Tenants, identities, addresses, keys, audit and alerts: to look at."""

from collections.abc import Mapping
from typing import Any, Final

from django.contrib import admin
from django.urls import reverse
from django.utils.html import format_html

from core.acts import Act, ActingAdmin
from core.admin import ReadOnlyAdmin
from mailboxes.models import Address, Alert, ApiKey, AuditRow, Identity, Tenant
from mailboxes.services import pause_identity
from mailboxes.statuses import IdentityStatus

REASON_SHOWN: Final = 80


@admin.register(Tenant)
class TenantAdmin(ReadOnlyAdmin):
    """A customer, its mode and its policy."""

    list_display = ("slug", "mode", "status", "timezone", "created_at")
    list_filter = ("mode", "status")
    ordering = ("-created_at", "id")
    exact_search = ("id", "slug")
    readonly_fields = ("allowances",)

    @admin.display(description="allowances, caps and use")
    def allowances(self, tenant: Tenant) -> str:
        """Return the link to the tenant's account."""
        where = reverse("admin:quota_quotaaccount_change", args=(tenant.pk,))
        return format_html('<a class="underline" href="{}">Look at them</a>', where)


def _pause(identity: Identity, answer: Mapping[str, Any]) -> str:
    paused = pause_identity(identity.id)
    return "It is paused." if paused else "It was not active any more."


def _not_active(identity: Identity) -> str:
    return "" if identity.status == IdentityStatus.ACTIVE else "it is not active"


PAUSE: Final = Act(
    name="pause",
    label="Pause it",
    permission="staff.pause_identity",
    what="No further send is accepted, and what is queued is canceled.",
    run=_pause,
    refused=lambda one: (
        "" if one.status == IdentityStatus.ACTIVE else "it is not active"
    ),
)


@admin.register(Identity)
class IdentityAdmin(ActingAdmin):
    """Who sends."""

    acts = (PAUSE,)

    list_display = ("username", "tenant", "status", "pause_reason", "created_at")
    list_filter = ("status",)
    list_select_related = ("tenant",)
    ordering = ("-created_at", "id")
    exact_search = ("id", "username", "tenant__slug", "addresses__address")


@admin.register(Address)
class AddressAdmin(ReadOnlyAdmin):
    """An address of an identity."""

    list_display = ("address", "identity", "role", "status", "created_at")
    list_filter = ("role", "status")
    list_select_related = ("identity",)
    ordering = ("-created_at", "id")
    exact_search = ("id", "address", "identity_id")


@admin.register(ApiKey)
class ApiKeyAdmin(ReadOnlyAdmin):
    """An API key; what is stored of its secret is not shown."""

    list_display = ("name", "lookup", "level", "tenant", "last_used_at")
    list_filter = ("level", "mode")
    list_select_related = ("tenant",)
    ordering = ("-created_at", "id")
    exact_search = ("id", "lookup", "tenant__slug")
    exclude = ("hash", "prev_hash")


@admin.register(AuditRow)
class AuditAdmin(ReadOnlyAdmin):
    """Who did what, and why."""

    list_display = ("created_at", "action", "target_id", "actor", "reason", "tenant")
    list_select_related = ("tenant",)
    ordering = ("-id",)
    exact_search = ("id", "target_id", "actor_key_id", "actor_user_id", "request_id")

    @admin.display(description="actor")
    def actor(self, row: AuditRow) -> str:
        """Return the user, the key, or the system."""
        if row.actor_user_id:
            return f"user {row.actor_user_id}"
        return row.actor_key_id or "the system"

    @admin.display(description="reason")
    def reason(self, row: AuditRow) -> str:
        """Return what was answered and why, cut for a list."""
        details = row.details or {}
        said = (details.get(name) for name in ("outcome", "reason", "note"))
        words = " · ".join(str(word) for word in said if word)
        return words if len(words) <= REASON_SHOWN else f"{words[:REASON_SHOWN]}…"


@admin.register(Alert)
class AlertAdmin(ReadOnlyAdmin):
    """What somebody should look at; open until it is resolved."""

    list_display = ("name", "subject", "severity", "last_at", "resolved_at")
    list_filter = ("severity",)
    ordering = ("-last_at", "id")
    exact_search = ("id", "name", "subject")
