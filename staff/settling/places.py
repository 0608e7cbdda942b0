"""Where the pages of sends in doubt are, and which part of a list one shows."""

from datetime import datetime
from typing import Any, Final
from urllib.parse import urlencode

from django.http import HttpRequest
from django.urls import reverse

from core.clock import database_now
from staff.settling.asked import Asked

PAGE: Final = 50
"""Rows of one page of a list."""


def settlement_url(settlement_id: str) -> str:
    """Return the address of a settlement's page."""
    return reverse("admin:staff_settlement_change", args=(settlement_id,))


def queue_url(asked: Asked | None) -> str:
    """Return the address of the list, as far as one has narrowed it."""
    query = urlencode(asked.kept()) if asked is not None else ""
    return reverse("admin:staff_settlement_changelist") + (f"?{query}" if query else "")


def seen_at_of(text: str) -> datetime:
    """Return the instant at which the list was made; never one to come."""
    now = database_now()
    try:
        seen_at = datetime.fromisoformat(text)
    except ValueError:
        return now
    return min(seen_at, now) if seen_at.tzinfo else now


def page_number(request: HttpRequest) -> int:
    """Return which page of a list is asked for; the first for what is no number."""
    asked = request.GET.get("page", "1")
    return max(1, int(asked)) if asked.isdecimal() and len(asked) < 6 else 1


def pages_of(request: HttpRequest, page: int, total: int) -> dict[str, Any]:
    """Return where this page of a list stands, and the addresses beside it."""

    def place(number: int) -> str:
        query = request.GET.copy()
        query["page"] = str(number)
        return f"?{query.urlencode()}"

    last = max(1, -(-total // PAGE))
    return {
        "number": page,
        "last": last,
        "before": place(page - 1) if page > 1 else "",
        "after": place(page + 1) if page < last else "",
        "from": PAGE * (page - 1) + 1,
        "to": min(PAGE * page, total),
    }
