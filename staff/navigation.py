"""The side bar: what needs a person first, then who, what, and what is wrong."""

from typing import Any, Final

from django.http import HttpRequest
from django.urls import reverse

GROUPS: Final = (
    (
        "Mail",
        (
            ("Needs you", "home", "index", ""),
            (
                *("Uncertain sends", "contact_support", "staff_settlement"),
                "mailboxes.view_message",
            ),
            ("Messages", "mail", "mailboxes_message", "mailboxes.view_message"),
            (
                *("Suppressions", "block", "suppressions_suppression"),
                "suppressions.view_suppression",
            ),
            (
                *("Send lists", "checklist", "suppressions_sendlistentry"),
                "suppressions.view_sendlistentry",
            ),
        ),
    ),
    (
        "Who sends",
        (
            ("Tenants", "domain", "mailboxes_tenant", "mailboxes.view_tenant"),
            ("Identities", "badge", "mailboxes_identity", "mailboxes.view_identity"),
            (
                *("Addresses", "alternate_email", "mailboxes_address"),
                "mailboxes.view_address",
            ),
            ("Domains", "dns", "domains_domain", "domains.view_domain"),
            ("API keys", "key", "mailboxes_apikey", "mailboxes.view_apikey"),
            ("Allowances", "speed", "quota_quotaaccount", "quota.view_quotaaccount"),
            (
                *("Webhooks", "webhook", "webhooks_webhookendpoint"),
                "webhooks.view_webhookendpoint",
            ),
            ("Holds", "lock_clock", "quota_hold", "quota.view_hold"),
        ),
    ),
    (
        "What happened",
        (
            ("Alerts", "warning", "mailboxes_alert", "mailboxes.view_alert"),
            ("Audit log", "history", "mailboxes_auditrow", "mailboxes.view_auditrow"),
            ("Events", "campaign", "mailboxes_event", "mailboxes.view_event"),
            (
                *("Provider events", "call_received", "delivery_providerevent"),
                "delivery.view_providerevent",
            ),
            (
                *("Received bodies", "inventory_2", "delivery_receivedbody"),
                "delivery.view_receivedbody",
            ),
        ),
    ),
    (
        "Accounts",
        (
            ("Users", "group", "auth_user", "auth.view_user"),
            ("Second factors", "pin", "otp_totp_totpdevice", "auth.change_user"),
            ("Access attempts", "gpp_maybe", "axes_accessattempt", "auth.change_user"),
        ),
    ),
)
"""Groups of pages: title, icon, the page's name, and who may see it."""


def navigation(_: HttpRequest) -> list[dict[str, Any]]:
    """Return the side bar as the theme draws it."""
    return [
        {"title": group, "items": [_item(*entry) for entry in entries]}
        for group, entries in GROUPS
    ]


def _item(title: str, icon: str, page: str, permission: str) -> dict[str, Any]:
    name = page if page == "index" else f"{page}_changelist"
    return {
        "title": title,
        "icon": icon,
        "link": reverse(f"admin:{name}"),
        "permission": lambda request: (
            not permission or request.user.has_perm(permission)
        ),
    }
