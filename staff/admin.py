"""Every page of the admin on one screen; Django finds them here."""

from staff.message_page import admin as message_page
from staff.pages import (
    accounts,
    alerts,
    allowances,
    domains,
    happenings,
    identities,
    keys,
    quota,
    received_bodies,
    suppressions,
    tenants,
    webhooks,
)
from staff.settling import admin as settling

__all__ = [
    "accounts",
    "alerts",
    "allowances",
    "domains",
    "happenings",
    "identities",
    "keys",
    "message_page",
    "quota",
    "received_bodies",
    "settling",
    "suppressions",
    "tenants",
    "webhooks",
]
