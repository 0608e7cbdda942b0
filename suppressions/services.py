"""Suppressing addresses: each at most once a tenant, with one event."""

import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256

from django.conf import settings
from ulid import ULID

from core.database import fetch_all
from core.hashing import address_hash
from mailboxes.services import NewEvent
from suppressions.statuses import SuppressionReason


@dataclass(frozen=True, slots=True)
class NewSuppression:
    """An address to suppress, and why."""

    address: str
    reason: SuppressionReason


def suppress(
    wanted: Sequence[NewSuppression],
    *,
    tenant_id: str,
    source_message_id: str,
    now: datetime,
) -> list[NewEvent]:
    """Suppress addresses for good, and return the events to publish.

    Joins the caller's transaction. An address that is suppressed already keeps its row
    and gives no event. Rows are written sorted by hash: two transactions that suppress
    the same addresses wait for each other in one order.
    """
    by_hash = {address_hash(new.address): new for new in wanted}
    rows = sorted(by_hash.items(), key=lambda row: row[0])
    if not rows:
        return []
    inserted = fetch_all(
        "INSERT INTO suppressions (tenant_id, address_hash, address_hint, reason,"
        " source_message_id, created_at)"
        " SELECT %(tenant)s, s.hash, s.hint, s.reason, %(source)s, %(now)s"
        " FROM unnest(%(hashes)s::text[], %(hints)s::text[], %(reasons)s::text[])"
        " AS s (hash, hint, reason)"
        " ON CONFLICT (tenant_id, address_hash) DO NOTHING"
        " RETURNING address_hash, address_hint, reason",
        {
            "tenant": tenant_id,
            "source": source_message_id,
            "now": now,
            "hashes": [digest for digest, _ in rows],
            "hints": [hint(new.address) for _, new in rows],
            "reasons": [str(new.reason) for _, new in rows],
        },
    )
    return [
        NewEvent(
            "suppression.created",
            {
                "address_hint": masked,
                "reason": reason,
                "source_message_id": source_message_id,
            },
            id=_event_id(tenant_id, digest, now),
        )
        for digest, masked, reason in inserted
    ]


def hint(address: str) -> str:
    """Return an address masked for display: ``j***@example.com``."""
    local, _, domain = address.rpartition("@")
    return f"{local[:1]}***@{domain}"


def _event_id(tenant_id: str, digest: str, created_at: datetime) -> str:
    """Return the one id of a suppression's event, however often it is raised.

    A ULID with the row's time and ten bytes of a keyed hash (the page, "Suppressions").
    """
    milliseconds = int(created_at.timestamp() * 1000)
    text = f"suppression:{tenant_id}{digest}{milliseconds}"
    random_part = hmac.new(settings.PM_HASH_KEY, text.encode(), sha256).digest()[:10]
    return f"evt_{ULID(milliseconds.to_bytes(6, 'big') + random_part)}"
