"""The front page's context: facts, plots, and the list behind each figure."""

from typing import Any, Final

from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils.http import urlencode

from core.clock import database_now
from staff.front_page.broker import AWAY, broker_state
from staff.front_page.needs import needs
from staff.front_page.plots import bounces_plot, caps_plot, sends_plot, waits_plot
from staff.front_page.traffic import traffic
from staff.settling.pages import LOOK
from staff.settling.progress import may_resolve

_LISTS: Final = {
    "alerts": ("mailboxes_alert", {"resolved_at__isnull": "True"}),
    "breakers": ("outbound_breaker", {}),
    "caps": ("quota_quotaaccount", {}),
    "claims": ("mailboxes_message", {"status__exact": "queued"}),
    "domains": ("domains_domain", {"state__in": "failing,suspended"}),
    "endpoints": ("webhooks_webhookendpoint", {"disabled_reason__in": "failing,gone"}),
    "orphans": ("delivery_providerevent", {"state__exact": "orphaned"}),
    "went_wrong": ("mailboxes_message", {"status__in": "bounced,rejected,failed"}),
    "bad": ("mailboxes_message", {"status__in": "bounced,complained"}),
}


def dashboard(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """Add what the front page shows, for those who may look at messages."""
    if not request.user.has_perm(LOOK):
        return context
    now = database_now()
    waiting, broker, went = needs(now=now), broker_state(), traffic(now=now)
    return {
        **context,
        "now": now,
        "needs": waiting,
        "broker": broker,
        "broker_is_away": broker == AWAY,
        "is_well": waiting.is_well and broker != AWAY,
        "traffic": went,
        "sends_plot": sends_plot(went.hours),
        "waits_plot": waits_plot(went.waits),
        "caps_plot": caps_plot(went.caps),
        "bounces_plot": bounces_plot(went.domains),
        "totals": {
            "went_out": sum(hour.went_out for hour in went.hours),
            "did_not": sum(hour.did_not for hour in went.hours),
            "in_doubt": sum(hour.in_doubt for hour in went.hours),
            "waits": sum(hour.waits for hour in went.hours),
        },
        "queue": reverse("admin:staff_settlement_changelist"),
        "lists": {name: _place(*asked) for name, asked in _LISTS.items()},
        "may_resolve": may_resolve(request),
    }


def _place(model: str, query: dict[str, str]) -> str:
    """Return the address of a list; nothing for one that the admin does not have."""
    try:
        found = reverse(f"admin:{model}_changelist")
    except NoReverseMatch:
        return ""
    return f"{found}?{urlencode(query)}" if query else found
