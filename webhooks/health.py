"""An endpoint's row after an attempt: its count of failures, its end, who is told."""

from datetime import datetime, timedelta
from typing import Final

from core import metrics
from core.database import execute, fetch_one
from mailboxes.services import (
    NewEvent,
    audit,
    publish_of_platform,
    publish_of_tenant,
    raise_alert,
    resolve_alerts,
)
from mailboxes.statuses import Severity
from webhooks.judging import Health
from webhooks.outcomes import Outcome
from webhooks.statuses import AttemptError, DisabledReason

DISABLED: Final = "webhook_disabled"
FAILING: Final = "webhook_failing"
SECRET: Final = "webhook_secret_unavailable"  # noqa: S105  an alert's name
OF_ONE: Final = (DISABLED, FAILING, SECRET)
"""Alerts whose subject is an endpoint; a success ends them."""

SSRF: Final = "webhook_ssrf_blocked"
MOST_BLOCKED: Final = 20
BLOCKED_WITHIN: Final = timedelta(hours=1)
"""More refusals of the guard in so long a time are worth a look."""

TOLD_EVERY: Final = 10
"""Failures in a row that raise an alert, and after so many more it is renewed."""


def lock(endpoint_id: str) -> tuple[Health, str | None] | None:
    """Lock an endpoint, and return its health and its tenant; None when it is gone.

    Joins the caller's transaction; it comes before the locks of dispatches.
    """
    row = fetch_one(
        "SELECT failures, failing_since, disabled_reason, tenant_id"
        " FROM webhook_endpoints WHERE id = %(id)s FOR NO KEY UPDATE",
        {"id": endpoint_id},
    )
    if row is None:
        return None
    failures, since, reason, tenant_id = row
    disabled = None if reason is None else DisabledReason(reason)
    return Health(failures, since, disabled), tenant_id


def store(endpoint_id: str, health: Health, *, is_success: bool, now: datetime) -> None:
    """Write an endpoint's health; joins the transaction that has it locked."""
    execute(
        "UPDATE webhook_endpoints SET failures = %(failures)s,"
        " failing_since = %(since)s, disabled_reason = %(reason)s,"
        " disabled_at = CASE WHEN %(reason)s::text IS NULL THEN NULL"
        "  ELSE coalesce(disabled_at, %(now)s) END,"
        " last_success_at = CASE WHEN %(success)s THEN %(now)s"
        "  ELSE last_success_at END"
        " WHERE id = %(id)s",
        {
            "id": endpoint_id,
            "failures": health.failures,
            "since": health.failing_since,
            "reason": health.disabled_reason and str(health.disabled_reason),
            "success": is_success,
            "now": now,
        },
    )


def tell(
    endpoint_id: str,
    outcome: Outcome,
    *,
    before: Health,
    after: Health,
    tenant_id: str | None,
    now: datetime,
) -> None:
    """Raise the alerts that an attempt gives rise to, and end those that it belies.

    Joins the caller's transaction, which has the endpoint locked.
    """
    if outcome.is_success:
        resolve_alerts(*OF_ONE, subject=endpoint_id)
    elif after.failures > before.failures and after.failures % TOLD_EVERY == 0:
        details = {"failures": after.failures, "error": str(outcome.error)}
        raise_alert(FAILING, subject=endpoint_id, details=details)
    if outcome.error is AttemptError.SECRET_UNAVAILABLE:
        raise_alert(SECRET, subject=endpoint_id, severity=Severity.PAGE)
    if outcome.error is AttemptError.SSRF_BLOCKED:
        _tell_of_blocked(now=now)
    if after.disabled_reason is not None and before.disabled_reason is None:
        _tell_disabled(endpoint_id, after.disabled_reason, tenant_id, now=now)


def _tell_of_blocked(*, now: datetime) -> None:
    metrics.count(metrics.WEBHOOK_SSRF_BLOCKED)
    row = fetch_one(
        "SELECT count(*) FROM webhook_attempts"
        " WHERE error = 'ssrf_blocked' AND created_at > %(since)s",
        {"since": now - BLOCKED_WITHIN},
    )
    assert row is not None  # noqa: S101  a count gives a row
    if row[0] > MOST_BLOCKED:
        raise_alert(SSRF, details={"count": row[0]})


def _tell_disabled(
    endpoint_id: str, reason: DisabledReason, tenant_id: str | None, *, now: datetime
) -> None:
    details = {"reason": str(reason)}
    raise_alert(DISABLED, subject=endpoint_id, details=details)
    audit(
        "webhook.disable",
        tenant_id=tenant_id,
        target_type="webhook",
        target_id=endpoint_id,
        details=details,
    )
    metrics.count(metrics.WEBHOOK_DISABLED, str(reason))
    event = NewEvent("webhook.disabled", {"webhook_id": endpoint_id, **details})
    if tenant_id is None:
        publish_of_platform(event, owner_id=endpoint_id, now=now)
    else:
        publish_of_tenant(event, tenant_id=tenant_id, now=now)
