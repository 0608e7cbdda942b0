"""Holds: quota that is set aside for sends whose outcome is not known yet."""

from django.contrib import admin

from core.admin import ReadOnlyAdmin
from quota.models import Hold


@admin.register(Hold)
class HoldAdmin(ReadOnlyAdmin):
    """What is set aside, for which send, and until when."""

    list_display = ("ref", "tenant", "feature", "units", "expires_at")
    list_filter = ("feature",)
    list_select_related = ("tenant",)
    ordering = ("expires_at", "id")
    exact_search = ("id", "ref", "tenant__slug", "identity_id")
