"""Who may do what in the admin: four roles, each with all of the one before it.

Roles are groups of Django's, made after each migration and put right again if somebody
has changed them. Accounts may have single permissions beside them.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from django.apps import apps
from django.contrib.auth.models import Group, Permission

from staff.statuses import APP, Duty

OWN_APPS: Final = (
    *("mailboxes", "domains", "webhooks", "suppressions", "quota", "delivery"),
    *("inbound", "outbound", "staff"),
)
CONTENT: Final = ("view_receivedbody",)
"""Views of tables whose rows are mail."""

DUTIES: Final[Mapping[str, Iterable[Duty]]] = {
    "viewer": (),
    "support": (Duty.READ_MAIL, Duty.RESOLVE, Duty.SUPPRESS),
    "operator": (Duty.PAUSE, Duty.DOMAINS, Duty.WEBHOOKS, Duty.ALERTS),
    "admin": (Duty.TENANTS, Duty.KEYS),
}
"""What each role adds to the one before it."""


def ensure_roles(**_: Any) -> None:
    """Make the four groups hold exactly what they should; run after each migration."""
    held = set(_looking())
    for role, duties in DUTIES.items():
        if role == "support":
            held |= set(Permission.objects.filter(codename__in=CONTENT))
        held |= set(
            Permission.objects.filter(
                content_type__app_label=APP, codename__in=list(duties)
            )
        )
        group, _made = Group.objects.get_or_create(name=role)
        group.permissions.set(held)


def _looking() -> Iterable[Permission]:
    own = [app for app in OWN_APPS if apps.is_installed(app)]
    views = Permission.objects.filter(
        content_type__app_label__in=own, codename__startswith="view_"
    )
    return views.exclude(codename__in=CONTENT)
