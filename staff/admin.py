"""Settlements: what is in doubt, and what has become of each answer to many."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path

from core.admin import ReadOnlyAdmin
from staff.models import Settlement
from staff.settling.pages import SettlementPages
from staff.statuses import SettlementState


@admin.register(Settlement)
class SettlementAdmin(SettlementPages, ReadOnlyAdmin):
    """Who gave many sends one answer, when, why, and how far that has come."""

    list_display = ("created_at", "state", "answer", "counts", "user", "why")
    list_filter = ("state", "outcome")
    list_select_related = ("user",)
    ordering = ("-created_at", "-id")
    exact_search = ("id", "user__username")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Settlement]:
        """Leave out previews that nobody has answered: they are pages left."""
        rows: QuerySet[Settlement] = super().get_queryset(request)
        return rows.exclude(state=SettlementState.PREVIEW)

    @admin.display(description="answer")
    def answer(self, row: Settlement) -> str:
        """Return the answer in words."""
        return "were sent" if row.outcome == "sent" else "were not sent"

    @admin.display(description="sends")
    def counts(self, row: Settlement) -> str:
        """Return what has become of its sends."""
        told = f"{row.settled} of {len(row.keys)} settled"
        if row.overtaken:
            told += f", {len(row.overtaken)} by events"
        return told + (f", {len(row.changed)} changed" if row.changed else "")

    @admin.display(description="why")
    def why(self, row: Settlement) -> str:
        """Return the reason, cut for a list."""
        return row.reason if len(row.reason) <= 60 else f"{row.reason[:59]}…"

    def get_urls(self) -> list[URLPattern]:
        """Add the list of what is in doubt, and the steps of a settlement."""
        view = self.admin_site.admin_view
        urls: list[URLPattern] = super().get_urls()
        return [
            path("queue/", view(self.queue_view), name="staff_settlement_queue"),
            path(
                "<str:object_id>/start/",
                view(self.start_view),
                name="staff_settlement_start",
            ),
            path(
                "<str:object_id>/go-on/",
                view(self.go_on_view),
                name="staff_settlement_go_on",
            ),
            *urls,
        ]

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Show one settlement, at whichever of its steps it is."""
        return self.settlement_view(request, object_id)
