"""Tenants, identities, addresses, keys, audit and alerts: to look at."""

from django.contrib import admin

from core.admin import ReadOnlyAdmin
from mailboxes.models import Address, Alert, ApiKey, AuditRow, Identity, Tenant


@admin.register(Tenant)
class TenantAdmin(ReadOnlyAdmin):
    """A customer, its mode and its policy."""

    list_display = ("slug", "mode", "status", "timezone", "created_at")
    list_filter = ("mode", "status")
    ordering = ("-created_at", "id")
    exact_search = ("id", "slug")


@admin.register(Identity)
class IdentityAdmin(ReadOnlyAdmin):
    """Who sends."""

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
    """Who did what."""

    list_display = ("created_at", "action", "target_id", "actor_user_id", "tenant")
    list_select_related = ("tenant",)
    ordering = ("-id",)
    exact_search = ("id", "target_id", "actor_key_id", "request_id")


@admin.register(Alert)
class AlertAdmin(ReadOnlyAdmin):
    """What somebody should look at; open until it is resolved."""

    list_display = ("name", "subject", "severity", "last_at", "resolved_at")
    list_filter = ("severity",)
    ordering = ("-last_at", "id")
    exact_search = ("id", "name", "subject")
