"""The provider's daily quota, as far as the operator has said what it is.

It is the account's, not a tenant's, and the provider does not tell how much of it is
left (the page, "TenantQuota").
"""

from typing import Final

from django.conf import settings
from django.db import transaction

from core.clock import database_now
from core.database import fetch_one
from mailboxes.models import Alert
from mailboxes.services import raise_alert, resolve_alerts

ALERT: Final = "provider_quota_80"
"""Raised once on a day in UTC; the day is its subject."""
ALERT_AT: Final = 80
"""Percent of the quota."""


@transaction.atomic(durable=True)
def check_send_quota() -> None:
    """Alert, once on a day in UTC, when 80 % of PM_DAILY_SEND_QUOTA have been sent.

    Recipients of live tenants' mail count. What was raised on another day is over.
    """
    today = database_now().date().isoformat()
    raised = Alert.objects.filter(name=ALERT)
    over = raised.filter(resolved_at=None).exclude(subject=today)
    for subject in over.values_list("subject", flat=True):
        resolve_alerts(ALERT, subject=subject)
    quota = settings.PM_DAILY_SEND_QUOTA
    if not quota or raised.filter(subject=today).exists():
        return
    sent = _sent_on(today)
    if sent * 100 >= quota * ALERT_AT:
        raise_alert(ALERT, subject=today, details={"sent": sent, "quota": quota})


def _sent_on(day: str) -> int:
    """Return the recipients that live tenants' mail was accepted for on a day."""
    row = fetch_one(
        "SELECT coalesce(sum(c.value), 0)::bigint FROM tenants t JOIN counters c"
        " ON c.tenant_id = t.id AND c.metric = 'usage:sends' AND c.bucket = %(day)s"
        " WHERE t.mode = 'live'",
        {"day": day},
    )
    assert row is not None  # noqa: S101  a sum is one row
    return int(row[0])
