"""Alerts: what somebody should look at, open until it is over or a person closes it."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from django.contrib import admin

from core.acting import person
from core.acts import Act, ActingAdmin
from mailboxes.alert_services import close_alert
from mailboxes.models import Alert
from staff.statuses import Duty


def _close(alert: Alert, answer: Mapping[str, Any]) -> str:
    who = person()
    closed = close_alert(
        alert.id,
        reason=answer["reason"],
        actor_user_id=who.user_id if who else None,
    )
    return "It is closed." if closed else "It was closed already."


def _closed(alert: Alert) -> str:
    return "" if alert.resolved_at is None else "it is closed already"


def _known(alert: Alert) -> Iterator[tuple[str, object]]:
    yield "Since", alert.first_at
    yield "Last seen", alert.last_at
    yield from alert.details.items()


CLOSE: Final = Act(
    name="close",
    label="Close it",
    permission=Duty.ALERTS.permission,
    what="You have dealt with it. If it is still so, it opens again soon.",
    run=_close,
    refused=_closed,
    facts=_known,
)


@admin.register(Alert)
class AlertAdmin(ActingAdmin):
    """What somebody should look at; open until it is resolved."""

    acts = (CLOSE,)
    list_display = ("name", "subject", "severity", "last_at", "resolved_at")
    list_filter = ("severity", ("resolved_at", admin.EmptyFieldListFilter))
    ordering = ("-last_at", "id")
    exact_search = ("id", "name", "subject")
