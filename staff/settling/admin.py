"""Uncertain sends, and the settlements that gave many of them one answer."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path

from core.admin import ReadOnlyAdmin
from staff.models import Settlement
from staff.settling.pages import SettlementPages


@admin.register(Settlement)
class SettlementAdmin(SettlementPages, ReadOnlyAdmin):
    """What is in doubt, and who gave many sends one answer: pages of their own."""

    def get_urls(self) -> list[URLPattern]:
        """Add the list of past settlements, and the steps of each."""
        view = self.admin_site.admin_view
        steps = {"start": self.start_view, "go_on": self.go_on_view}
        urls: list[URLPattern] = super().get_urls()
        return [
            path("past/", view(self.past_view), name="staff_settlement_past"),
            *(
                path(
                    f"<str:object_id>/{name.replace('_', '-')}/",
                    view(step),
                    name=f"staff_settlement_{name}",
                )
                for name, step in steps.items()
            ),
            *urls,
        ]

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """List what is in doubt: what one looks for at 3 a.m."""
        return self.queue_view(request)

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Show one settlement, at whichever of its steps it is."""
        return self.settlement_view(request, object_id)
