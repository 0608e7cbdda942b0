"""Endpoints that are told of events, two of them disabled, and how that went."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from mailboxes.models import Tenant
from pylota.demo_data.draw import Draw
from pylota.demo_data.rows import Row, Rows, take_keys
from pylota.demo_data.senders import webhook_secret
from webhooks.statuses import DisabledReason

ENDPOINTS: Final[tuple[tuple[str, str, DisabledReason | None, int], ...]] = (
    ("demo-acme", "https://hooks.acme.example/pylota", None, 0),
    ("demo-acme", "https://analytics.acme.example/in", DisabledReason.FAILING, 117),
    ("demo-harbour", "https://pms.bookings.example/mail", None, 12),
    ("demo-clinic", "https://old.clinic.example/hook", DisabledReason.GONE, 1),
    ("demo-nour", "https://nour.example/webhooks", None, 0),
)
"""Whose they are, where, why disabled if so, and the failures in a row."""

SHOWN: Final = 600
"""The latest events of a tenant that its endpoints were told of."""

FLAKY: Final = 0.05


def tell_endpoints(events: Sequence[Row], draw: Draw, rows: Rows) -> None:
    """Add endpoints, dispatches and attempts for the latest events."""
    for slug, url, disabled, failures in ENDPOINTS:
        tenant_id = Tenant.objects.values_list("id", flat=True).get(slug=slug)
        made = draw.now - timedelta(days=60)
        endpoint_id = draw.id("whk", made)
        own = [event for event in events if event["tenant_id"] == tenant_id][-SHOWN:]
        since = draw.now - timedelta(hours=30) if failures else None
        rows.add(
            "webhook_endpoints",
            {
                "id": endpoint_id,
                "tenant_id": tenant_id,
                "url": url,
                "events": ("*",),
                "description": "",
                "disabled_reason": disabled and str(disabled),
                "disabled_at": draw.now - timedelta(hours=3) if disabled else None,
                "secret_enc": webhook_secret(draw, endpoint_id),
                "failures": failures,
                "failing_since": since,
                "last_success_at": since or draw.before_now(5),
                "created_at": made,
                "updated_at": made,
            },
        )
        _dispatches(endpoint_id, own, draw, rows, is_dead=disabled is not None)


def _dispatches(
    endpoint_id: str, events: Sequence[Row], draw: Draw, rows: Rows, *, is_dead: bool
) -> None:
    keys = take_keys("webhook_dispatches", "id", len(events)) if events else []
    for key, event in zip(keys, events, strict=True):
        at = event["occurred_at"]
        ends = [not is_dead] if is_dead or not draw.chance(FLAKY) else [False, True]
        rows.add(
            "webhook_dispatches",
            {
                "id": key,
                "endpoint_id": endpoint_id,
                "event_id": event["id"],
                "event_type": event["type"],
                "state": "dead" if is_dead else "succeeded",
                "attempts": len(ends),
                "created_at": at,
            },
        )
        for n, is_well in enumerate(ends, start=1):
            row = _attempt(endpoint_id, event, n, at, draw, is_well=is_well)
            rows.add("webhook_attempts", row)


def _attempt(
    endpoint_id: str, event: Row, n: int, at: datetime, draw: Draw, *, is_well: bool
) -> dict[str, Any]:
    tried = draw.after(at, 1.5 if n == 1 else 35.0)
    return {
        "id": draw.id("dlv", tried),
        "endpoint_id": endpoint_id,
        "event_id": event["id"],
        "event_type": event["type"],
        "attempt": n,
        "status": "succeeded" if is_well else "failed",
        "http_status": 204 if is_well else 503,
        "error": None if is_well else "status_5xx",
        "detail": "" if is_well else "upstream is away",
        "duration_ms": 20 + draw.random.randrange(900),
        "created_at": tried,
    }
