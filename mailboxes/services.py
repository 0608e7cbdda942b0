"""What changes a mailbox's own rows: events, audit, alerts, pauses.

Whoever changes a mailbox locks its row first; ``publish`` numbers its events under that
lock.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import structlog
from django.db import transaction
from psycopg.types.json import Jsonb

from core.acting import person
from core.clock import database_now
from core.database import execute, fetch_all, fetch_one
from core.errors import IdentityNotFound
from core.ids import new_id
from mailboxes.alert_services import raise_alert as raise_alert
from mailboxes.alert_services import resolve_alerts as resolve_alerts
from mailboxes.models import AuditRow, Identity, Mailbox
from mailboxes.statuses import (
    EventOwner,
    IdentityStatus,
    PauseReason,
)

API_VERSION = "2026-10-01"
ABUSE_ALERT = "abuse_pause"
"""Open while an identity is paused for abuse; its subject is the identity."""


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


def lock_identity(identity_id: str) -> Identity:
    """Lock the mailbox of an identity that may still be changed, and read it then.

    Joins the caller's transaction. Raises IdentityNotFound once it is being deleted:
    writes to it find nothing.
    """
    lock_mailbox(identity_id)
    gone = (IdentityStatus.DELETING, IdentityStatus.DELETED)
    found = Identity.objects.filter(id=identity_id).exclude(status__in=gone).first()
    if found is None:
        raise IdentityNotFound("No such identity.")
    return found


def hold_names(tenant_id: str) -> None:
    """Let nobody else name an identity of this tenant until the transaction ends.

    Joins the caller's transaction, and comes before the lock of any mailbox.
    """
    digest = hashlib.sha256(f"names\0{tenant_id}".encode()).digest()
    number = int.from_bytes(digest[:8], signed=True)
    fetch_one("SELECT pg_advisory_xact_lock(%(number)s)", {"number": number})


def lock_mailboxes(tenant_id: str) -> list[str]:
    """Lock every mailbox of a tenant, sorted by id, and let none be made meanwhile.

    For what stops or resumes a whole tenant: the one transaction that takes many of
    these rows takes all of them, and before anything else. Returns their ids.
    """
    hold_names(tenant_id)
    rows = fetch_all(
        "SELECT identity_id FROM mailbox_state WHERE tenant_id = %(tenant)s"
        " ORDER BY identity_id FOR NO KEY UPDATE",
        {"tenant": tenant_id},
    )
    return [identity_id for (identity_id,) in rows]


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
    place = _Place(EventOwner.MAILBOX, identity_id, tenant_id, identity_id)
    _store([_Numbered(e, place, first + n) for n, e in enumerate(events)], now=now)


def publish_to_each(
    events: Mapping[str, NewEvent], *, tenant_id: str, now: datetime
) -> None:
    """Store one event for each of many mailboxes, by identity, in two statements.

    Joins the caller's transaction, which holds the rows of all of them.
    """
    rows = fetch_all(
        "UPDATE mailbox_state SET next_event_seq = next_event_seq + 1"
        " WHERE identity_id = ANY(%(identities)s)"
        " RETURNING identity_id, next_event_seq",
        {"identities": list(events)},
    )
    numbered = [
        _Numbered(events[one], _Place(EventOwner.MAILBOX, one, tenant_id, one), seq - 1)
        for one, seq in rows
    ]
    _store(numbered, now=now)


def publish_of_tenant(event: NewEvent, *, tenant_id: str, now: datetime) -> None:
    """Store an event of a tenant as a whole, with no ``sequence`` for clients.

    It is numbered by the tenant's own counter all the same, so that no two rows are one
    (REST contract, section 5.1). Joins the caller's transaction, and locks the tenant's
    row.
    """
    row = fetch_one(
        "UPDATE tenants SET next_event_seq = next_event_seq + 1"
        " WHERE id = %(tenant)s RETURNING next_event_seq",
        {"tenant": tenant_id},
    )
    assert row is not None  # noqa: S101  tenants are never deleted
    place = _Place(EventOwner.PLATFORM, tenant_id, tenant_id, None)
    _store([_Numbered(event, place, row[0] - 1)], now=now)


def publish_of_platform(event: NewEvent, *, owner_id: str, now: datetime) -> None:
    """Store an event of the deployment as a whole: no tenant's, and no ``sequence``.

    Joins the caller's transaction, which has the row of ``owner_id`` locked: the events
    that came from it are counted.
    """
    row = fetch_one(
        "SELECT coalesce(max(seq), 0) + 1 FROM events"
        " WHERE owner_kind = 'platform' AND owner_id = %(owner)s",
        {"owner": owner_id},
    )
    assert row is not None  # noqa: S101  an aggregate gives a row
    place = _Place(EventOwner.PLATFORM, owner_id, None, None)
    _store([_Numbered(event, place, row[0])], now=now)


@dataclass(frozen=True, slots=True)
class _Place:
    """Whose sequence an event counts in, and whom it tells of."""

    owner: EventOwner
    owner_id: str
    tenant_id: str | None
    identity_id: str | None


@dataclass(frozen=True, slots=True)
class _Numbered:
    """An event with its number."""

    event: NewEvent
    place: _Place
    seq: int

    def payload(self, event_id: str, *, now: datetime) -> dict[str, Any]:
        """Return the envelope that clients get (REST contract, section 5.1)."""
        has_sequence = self.place.owner != EventOwner.PLATFORM
        return {
            "id": event_id,
            "type": self.event.type,
            "api_version": API_VERSION,
            "occurred_at": render_instant(now),
            "tenant_id": self.place.tenant_id,
            "identity_id": self.place.identity_id,
            "sequence": self.seq if has_sequence else None,
            "data": dict(self.event.data),
        }


def _store(events: Sequence[_Numbered], *, now: datetime) -> None:
    ids = [one.event.id or new_id("evt") for one in events]
    payloads = [one.payload(ids[n], now=now) for n, one in enumerate(events)]
    execute(
        "INSERT INTO events (id, tenant_id, identity_id, owner_kind, owner_id, seq,"
        " type, payload, occurred_at)"
        " SELECT e.*, %(now)s FROM unnest(%(ids)s::text[], %(tenants)s::text[],"
        " %(identities)s::text[], %(owners)s::text[], %(owner_ids)s::text[],"
        " %(seqs)s::bigint[], %(types)s::text[], %(payloads)s::jsonb[]) AS e"
        " ON CONFLICT (id) DO NOTHING",
        {
            "ids": ids,
            "tenants": [one.place.tenant_id for one in events],
            "identities": [one.place.identity_id for one in events],
            "owners": [str(one.place.owner) for one in events],
            "owner_ids": [one.place.owner_id for one in events],
            "seqs": [one.seq for one in events],
            "types": [one.event.type for one in events],
            "payloads": [Jsonb(payload) for payload in payloads],
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
    """Write who did what; joins the caller's transaction. No actor means the system.

    A person who acts in the admin is named with the reason that they gave. Without
    ``request_id`` it is the one that this thread's log lines carry, if any.
    """
    at_hand = structlog.contextvars.get_contextvars().get("request_id")
    if (who := person()) is not None:
        actor_key_id, actor_user_id = None, actor_user_id or who.user_id
        details = {**(details or {}), **({"note": who.reason} if who.reason else {})}
    AuditRow.objects.create(
        id=new_id("aud"),
        tenant_id=tenant_id,
        action=action,
        target_type=target_type,
        target_id=target_id,
        details=dict(details) if details is not None else None,
        actor_key_id=actor_key_id,
        actor_user_id=actor_user_id,
        request_id=request_id or at_hand,
    )


@transaction.atomic
def pause_identity(identity_id: str, *, actor_key_id: str | None = None) -> bool:
    """Pause an active identity by hand; tell whether anything changed.

    Joins the caller's transaction, if there is one.
    """
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


def pause_for_abuse(
    identity_id: str, tenant_id: str, *, metrics: Mapping[str, int], now: datetime
) -> bool:
    """Pause an active identity whose mail does harm; tell whether anything changed.

    ``metrics`` says what was counted: it goes into event, audit row and alert. Joins
    the caller's transaction, which holds the mailbox.
    """
    reason = PauseReason.ABUSE_THRESHOLD
    if not _pause(identity_id, tenant_id, reason=reason, now=now, metrics=metrics):
        return False
    audit(
        "identity.auto_pause",
        tenant_id=tenant_id,
        target_type="identity",
        target_id=identity_id,
        details=metrics,
    )
    raise_alert(ABUSE_ALERT, subject=identity_id, details=metrics)
    return True


def _pause(
    identity_id: str,
    tenant_id: str,
    *,
    reason: PauseReason,
    now: datetime,
    **told: Mapping[str, int],
) -> bool:
    changed = Identity.objects.filter(
        id=identity_id, status=IdentityStatus.ACTIVE
    ).update(status=IdentityStatus.PAUSED, pause_reason=reason, updated_at=now)
    if changed:
        data = {"identity_id": identity_id, "reason": str(reason), **told}
        publish(
            [NewEvent("identity.paused", data)],
            tenant_id=tenant_id,
            identity_id=identity_id,
            now=now,
        )
    return bool(changed)
