"""What changes a mailbox's own rows: events, audit, alerts, pauses.

Whoever changes a mailbox locks its row first; ``publish`` numbers its events under that
lock.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from psycopg.types.json import Jsonb

from core.clock import database_now
from core.database import execute, fetch_all, fetch_one
from core.ids import new_id
from mailboxes.models import AuditRow, Identity, Mailbox, Tenant
from mailboxes.statuses import (
    EventOwner,
    IdentityStatus,
    PauseReason,
    Severity,
    TenantStatus,
)

API_VERSION = "2026-10-01"


@dataclass(frozen=True, slots=True)
class NewEvent:
    """Something that clients are told; ``id`` is given when it is deterministic."""

    type: str
    data: Mapping[str, Any]
    id: str | None = None


def lock_mailbox(identity_id: str) -> bool:
    """Lock a mailbox's row for its one writer; tell whether there is one.

    Joins the caller's transaction, and is the first lock of it.
    """
    return (
        fetch_one(
            "SELECT 1 FROM mailbox_state WHERE identity_id = %(identity)s"
            " FOR NO KEY UPDATE",
            {"identity": identity_id},
        )
        is not None
    )


def publish(
    events: Sequence[NewEvent], *, tenant_id: str, identity_id: str, now: datetime
) -> None:
    """Store events of a mailbox with its next sequence numbers.

    Joins the caller's transaction, which holds the mailbox row. An event whose
    deterministic id stands already is not stored again.
    """
    if not events:
        return
    row = fetch_one(
        "UPDATE mailbox_state SET next_event_seq = next_event_seq + %(count)s"
        " WHERE identity_id = %(identity)s RETURNING next_event_seq",
        {"count": len(events), "identity": identity_id},
    )
    assert row is not None  # noqa: S101  the caller holds this row
    first = row[0] - len(events)
    ids = [event.id or new_id("evt") for event in events]
    payloads = [
        {
            "id": ids[n],
            "type": event.type,
            "api_version": API_VERSION,
            "occurred_at": render_instant(now),
            "tenant_id": tenant_id,
            "identity_id": identity_id,
            "sequence": first + n,
            "data": dict(event.data),
        }
        for n, event in enumerate(events)
    ]
    execute(
        "INSERT INTO events (id, tenant_id, identity_id, owner_kind, owner_id, seq,"
        " type, payload, occurred_at)"
        " SELECT e.id, %(tenant)s, %(identity)s, %(owner)s, %(owner_id)s, e.seq,"
        " e.type, e.payload, %(now)s FROM unnest(%(ids)s::text[], %(seqs)s::bigint[],"
        " %(types)s::text[], %(payloads)s::jsonb[]) AS e (id, seq, type, payload)"
        " ON CONFLICT (id) DO NOTHING",
        {
            "tenant": tenant_id,
            "identity": identity_id,
            "owner": str(EventOwner.MAILBOX),
            "owner_id": identity_id,
            "now": now,
            "ids": ids,
            "seqs": list(range(first, first + len(events))),
            "types": [event.type for event in events],
            "payloads": [Jsonb(payload) for payload in payloads],
        },
    )


def publish_of_tenant(event: NewEvent, *, tenant_id: str, now: datetime) -> None:
    """Store an event of a tenant as a whole, with no ``sequence`` for clients.

    It is numbered all the same, so that no two rows are one (REST contract, section
    5.1). Joins the caller's transaction, and locks the tenant's row.
    """
    execute(
        "SELECT 1 FROM tenants WHERE id = %(tenant)s FOR NO KEY UPDATE",
        {"tenant": tenant_id},
    )
    event_id = event.id or new_id("evt")
    payload = {
        "id": event_id,
        "type": event.type,
        "api_version": API_VERSION,
        "occurred_at": render_instant(now),
        "tenant_id": tenant_id,
        "identity_id": None,
        "sequence": None,
        "data": dict(event.data),
    }
    execute(
        "INSERT INTO events (id, tenant_id, owner_kind, owner_id, seq, type, payload,"
        " occurred_at) SELECT %(id)s::text, %(tenant)s::text, %(owner)s::text,"
        " %(tenant)s::text, COALESCE(MAX(seq), 0) + 1, %(type)s::text,"
        " %(payload)s::jsonb, %(now)s FROM events"
        " WHERE owner_kind = %(owner)s::text AND owner_id = %(tenant)s::text"
        " ON CONFLICT (id) DO NOTHING",
        {
            "id": event_id,
            "tenant": tenant_id,
            "owner": str(EventOwner.PLATFORM),
            "type": event.type,
            "payload": Jsonb(payload),
            "now": now,
        },
    )


def render_instant(instant: datetime) -> str:
    """Return an instant as the API shows it: RFC 3339, UTC, milliseconds."""
    text = instant.isoformat(timespec="milliseconds")
    return text.removesuffix("+00:00") + "Z"


def audit(
    action: str,
    *,
    tenant_id: str | None,
    target_type: str | None = None,
    target_id: str | None = None,
    details: Mapping[str, Any] | None = None,
    actor_key_id: str | None = None,
    actor_user_id: str | None = None,
    request_id: str | None = None,
) -> None:
    """Write who did what; joins the caller's transaction. No actor means the system."""
    AuditRow.objects.create(
        id=new_id("aud"),
        tenant_id=tenant_id,
        action=action,
        target_type=target_type,
        target_id=target_id,
        details=dict(details) if details is not None else None,
        actor_key_id=actor_key_id,
        actor_user_id=actor_user_id,
        request_id=request_id,
    )


def raise_alert(
    name: str,
    *,
    subject: str = "",
    severity: Severity = Severity.TICKET,
    details: Mapping[str, Any] | None = None,
) -> None:
    """Open an alert, or renew the open one of the same name and subject.

    Joins the caller's transaction.
    """
    execute(
        "INSERT INTO alerts (id, name, subject, severity, details)"
        " VALUES (%(id)s, %(name)s, %(subject)s, %(severity)s, %(details)s)"
        " ON CONFLICT (name, subject) WHERE resolved_at IS NULL"
        " DO UPDATE SET last_at = clock_timestamp(), details = EXCLUDED.details",
        {
            "id": new_id("alr"),
            "name": name,
            "subject": subject,
            "severity": str(severity),
            "details": Jsonb(dict(details or {})),
        },
    )


@transaction.atomic(durable=True)
def suspend_tenant(tenant_id: str, *, actor_key_id: str | None = None) -> int:
    """Suspend a tenant and pause every active identity of it; return how many.

    The one transaction that takes many mailbox rows: all of them first, sorted by id.
    Suspending twice changes nothing.
    """
    fetch_all(
        "SELECT 1 FROM mailbox_state WHERE tenant_id = %(tenant)s"
        " ORDER BY identity_id FOR NO KEY UPDATE",
        {"tenant": tenant_id},
    )
    now = database_now()
    suspended = Tenant.objects.filter(id=tenant_id, status=TenantStatus.ACTIVE).update(
        status=TenantStatus.SUSPENDED, suspended_at=now, updated_at=now
    )
    if not suspended:
        return 0
    active = Identity.objects.filter(tenant_id=tenant_id, status=IdentityStatus.ACTIVE)
    paused = sorted(active.values_list("id", flat=True))
    for identity_id in paused:
        _pause(identity_id, tenant_id, reason=PauseReason.TENANT_SUSPENDED, now=now)
    audit(
        "tenant.suspend",
        tenant_id=tenant_id,
        target_type="tenant",
        target_id=tenant_id,
        details={"identities_paused": len(paused)},
        actor_key_id=actor_key_id,
    )
    return len(paused)


@transaction.atomic(durable=True)
def pause_identity(identity_id: str, *, actor_key_id: str | None = None) -> bool:
    """Pause an active identity by hand; tell whether anything changed."""
    lock_mailbox(identity_id)
    now = database_now()
    tenant_id = Mailbox.objects.values_list("tenant_id", flat=True).get(pk=identity_id)
    if not _pause(identity_id, tenant_id, reason=PauseReason.MANUAL, now=now):
        return False
    audit(
        "identity.pause",
        tenant_id=tenant_id,
        target_type="identity",
        target_id=identity_id,
        actor_key_id=actor_key_id,
    )
    return True


def _pause(
    identity_id: str, tenant_id: str, *, reason: PauseReason, now: datetime
) -> bool:
    changed = Identity.objects.filter(
        id=identity_id, status=IdentityStatus.ACTIVE
    ).update(status=IdentityStatus.PAUSED, pause_reason=reason, updated_at=now)
    if changed:
        publish(
            [
                NewEvent(
                    "identity.paused",
                    {"identity_id": identity_id, "reason": str(reason)},
                )
            ],
            tenant_id=tenant_id,
            identity_id=identity_id,
            now=now,
        )
    return bool(changed)
