"""Sending domains: to look at."""

from django.contrib import admin

from core.admin import ReadOnlyAdmin
from domains.models import Domain


@admin.register(Domain)
class DomainAdmin(ReadOnlyAdmin):
    """A domain and its state; sealed credentials are not shown."""

    list_display = ("name", "tenant", "method", "state", "state_changed_at")
    list_filter = ("state", "method")
    list_select_related = ("tenant",)
    ordering = ("-created_at", "id")
    exact_search = ("id", "name", "tenant__slug")
    exclude = ("smtp_sealed", "smtp_pending_sealed", "ownership_token")
