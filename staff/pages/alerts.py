"""Alerts: what somebody should look at, open until it is resolved."""

from django.contrib import admin

from core.admin import ReadOnlyAdmin
from mailboxes.models import Alert


@admin.register(Alert)
class AlertAdmin(ReadOnlyAdmin):
    """What somebody should look at; open until it is resolved."""

    list_display = ("name", "subject", "severity", "last_at", "resolved_at")
    list_filter = ("severity",)
    ordering = ("-last_at", "id")
    exact_search = ("id", "name", "subject")
