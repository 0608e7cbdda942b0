"""What was told, what providers said, what was done, what is wrong: to look at."""

from typing import Final

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from core.admin import ReadOnlyAdmin
from core.ids import is_id
from delivery.models import ProviderEvent
from mailboxes.models import AuditRow, Event, told_message

REASON_SHOWN: Final = 80


@admin.register(Event)
class EventAdmin(ReadOnlyAdmin):
    """What clients are told: the feed."""

    list_display = ("type", "identity", "tenant", "position", "occurred_at")
    list_select_related = ("identity", "tenant")
    ordering = ("-id",)
    exact_search = ("id", "identity_id", "tenant__slug", "type")
    search_help_text = "A whole event, message or identity id, a tenant, or a type"

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Event], search_term: str
    ) -> tuple[QuerySet[Event], bool]:
        """Find those of a message too."""
        term = search_term.strip()
        if is_id(term, "msg"):
            told = queryset.annotate(told_message=told_message())
            return told.filter(told_message=term), False
        return super().get_search_results(request, queryset, term)


@admin.register(ProviderEvent)
class ProviderEventAdmin(ReadOnlyAdmin):
    """What a provider said, and what became of it."""

    list_display = ("event_id", "source", "state", "received_at", "attempts")
    list_filter = ("state", "source")
    ordering = ("-id",)
    exact_search = ("id", "event_id", "message__public_id", "payload__recipient")


@admin.register(AuditRow)
class AuditAdmin(ReadOnlyAdmin):
    """Who did what, and why."""

    list_display = ("created_at", "action", "target_id", "actor", "reason", "tenant")
    list_select_related = ("tenant",)
    ordering = ("-id",)
    exact_search = (
        *("id", "action", "target_id", "actor_key_id", "actor_user_id", "request_id"),
    )

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
