"""What operators find: alerts, open and over, who did what, and an open breaker."""

from datetime import datetime, timedelta
from typing import Any, Final

from domains.models import Domain
from mailboxes.models import Identity, Tenant
from mailboxes.statuses import PauseReason
from pylota.demo_data.draw import Draw
from pylota.demo_data.mail import Letter
from pylota.demo_data.rows import Rows

ALERTS: Final = (
    # name, severity, subject, began minutes ago, ended minutes ago or never
    ("uncertain_spike", "page", "", 36, None),
    ("transport_breaker_open", "page", "ses:account", 33, None),
    ("domain_failing", "ticket", "bookings.example", 300, None),
    ("abuse_pause", "ticket", "news", 4320, None),
    ("inbound_copy_failed", "ticket", "job_01K0DEMO", 5000, None),
    ("provider_quota", "page", "cloudflare", 9000, 8700),
    ("delivery_orphaned", "ticket", "", 20_000, 19_950),
    ("beat_stale", "page", "", 41_000, 40_990),
    ("rows_overdue", "page", "outbound_state", 41_000, 40_985),
)


class Records:
    """Writes audit rows as things happen, and alerts at the end."""

    def __init__(self, draw: Draw, rows: Rows) -> None:
        self._draw, self._rows = draw, rows

    def tell(self, letter: Letter) -> None:
        """Add who had a hand in a letter, if somebody had."""
        at = letter.recipients[0].changed_at
        if letter.fate == "resolved":
            details = {"outcome": "sent", "note": "seen in the provider's log"}
            self._audit("message.resolve", letter, at, {**details, "deliveries": 1})
        elif letter.fate == "canceled":
            self._audit("message.cancel", letter, at, None)

    def _audit(
        self, action: str, letter: Letter, at: datetime, details: dict[str, Any] | None
    ) -> None:
        self._add(
            action,
            at,
            tenant_id=letter.sender.tenant_id,
            target=("message", letter.id),
            details=details,
            user="1",
        )

    def close(self) -> None:
        """Add alerts with their audit rows, the breaker, and what befell tenants."""
        for name, severity, subject, began, ended in ALERTS:
            self._alert(name, severity, _subject(subject), began, ended)
        self._rows.add(
            "transport_breakers",
            {
                "provider": "ses",
                "scope": "account",
                "unknowns": 3,
                "openings": 1,
                "probe_at": self._draw.now + timedelta(minutes=3),
            },
        )
        for tenant in Tenant.objects.filter(slug__startswith="demo-").order_by("slug"):
            target = ("tenant", tenant.id)
            details = {"slug": tenant.slug, "mode": tenant.mode}
            self._add(
                "tenant.create",
                tenant.created_at,
                tenant_id=tenant.id,
                target=target,
                details=details,
            )
            if tenant.suspended_at is not None:
                at = tenant.suspended_at
                self._add("tenant.suspend", at, tenant_id=tenant.id, target=target)

    def _alert(
        self, name: str, severity: str, subject: str, began: int, ended: int | None
    ) -> None:
        first = self._draw.now - timedelta(minutes=began)
        over = None if ended is None else self._draw.now - timedelta(minutes=ended)
        alert_id = self._draw.id("alr", first)
        self._rows.add(
            "alerts",
            {
                "id": alert_id,
                "name": name,
                "subject": subject,
                "severity": severity,
                "details": {},
                "first_at": first,
                "last_at": over or self._draw.now,
                "resolved_at": over,
            },
        )
        details = {"name": name, "subject": subject, "severity": severity}
        target = ("alert", alert_id)
        self._add("alert.fire", first, target=target, details=details)
        if over is not None:
            self._add("alert.resolve", over, target=target, details=details)

    def _add(
        self,
        action: str,
        at: datetime,
        *,
        target: tuple[str, str],
        tenant_id: str | None = None,
        details: dict[str, Any] | None = None,
        user: str | None = None,
    ) -> None:
        self._rows.add(
            "audit_log",
            {
                "id": self._draw.id("aud", at),
                "tenant_id": tenant_id,
                "actor_user_id": user,
                "action": action,
                "target_type": target[0],
                "target_id": target[1],
                "details": details,
                "created_at": at,
            },
        )


def _subject(named: str) -> str:
    """Return the id that stands for what the table names."""
    if named == "bookings.example":
        return Domain.objects.values_list("id", flat=True).get(name=named)
    if named == "news":
        paused = Identity.objects.filter(pause_reason=PauseReason.ABUSE_THRESHOLD)
        return paused.values_list("id", flat=True)[0]
    return named
