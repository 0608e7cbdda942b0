"""A tenant's account: what its plan grants, what the day allows, what was used."""

from collections.abc import Sequence
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.safestring import SafeString, mark_safe

from core.admin import ReadOnlyAdmin
from core.clock import database_now
from core.plots import Series, bars
from quota import overview
from quota.models import QuotaAccount
from quota.overview import DayUsed
from quota.plans import mode_in_force


@admin.register(QuotaAccount)
class QuotaAccountAdmin(ReadOnlyAdmin):
    """One account a tenant: to look at. Plans are changed through the API."""

    change_form_template = "staff/account.html"
    list_display = ("tenant", "mode", "plan_id", "period_end", "past_due_since")
    list_filter = ("mode", "plan_id")
    list_select_related = ("tenant",)
    ordering = ("-created_at", "tenant_id")
    exact_search = ("tenant_id", "tenant__slug")

    def get_queryset(self, request: HttpRequest) -> QuerySet[QuotaAccount]:
        """Read the tenant along."""
        rows: QuerySet[QuotaAccount] = super().get_queryset(request)
        return rows.select_related("tenant")

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Show one account with all that counts against it."""
        account = self.get_object(request, object_id)
        known = _known(account) if account is not None else {}
        page: HttpResponse = super().change_view(
            request, object_id, form_url, {**(extra_context or {}), **known}
        )
        return page


def _known(account: QuotaAccount) -> dict[str, Any]:
    now = database_now()
    days = overview.days_used(account.tenant_id, until=now.date())
    return {
        "account": account,
        "mode": mode_in_force(account.mode),
        "period": overview.period_at(account, now),
        "standings": overview.standings(account, now=now),
        "caps": overview.caps_today(account, now=now),
        "days": [day for day in reversed(days) if day.sends or day.outbound],
        "totals": _totals(days),
        "plot": _plot(days),
    }


def _totals(days: Sequence[DayUsed]) -> list[tuple[str, int, int]]:
    """Return label, sends and messages of the spans that one asks for."""
    spans = (("Today", 1), ("Last 7 days", 7), ("Last 30 days", 30))
    return [
        (
            label,
            sum(day.sends for day in days[-count:]),
            sum(day.outbound for day in days[-count:]),
        )
        for label, count in (*spans, (f"Last {len(days)} days", len(days)))
    ]


def _plot(days: Sequence[DayUsed]) -> SafeString:
    series = [
        Series("recipients", [day.sends for day in days]),
        Series("messages", [day.outbound for day in days]),
    ]
    labels = [f"{day.day:%-d %b}" for day in days]
    name = "Recipients and messages that a transport accepted, by day"
    return mark_safe(bars(name, labels, series))  # noqa: S308  escaped where it is drawn
