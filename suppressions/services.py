"""Suppressing addresses: each at most once a tenant, with one event."""

import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from ulid import ULID

from core import metrics
from core.addresses import hint
from core.database import fetch_all
from core.errors import InvalidRequest, SuppressionNotFound
from core.hashing import address_hash, pseudonym_of
from mailboxes.services import NewEvent, audit, publish_of_tenant
from suppressions.models import Suppression
from suppressions.statuses import SuppressionReason


@dataclass(frozen=True, slots=True)
class NewSuppression:
    """An address to suppress, and why."""

    address: str
    reason: SuppressionReason
    note: str | None = None


def suppress(
    wanted: Sequence[NewSuppression],
    *,
    tenant_id: str,
    source_message_id: str | None,
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
        " note, source_message_id, created_at)"
        " SELECT %(tenant)s, s.*, %(source)s, %(now)s"
        " FROM unnest(%(hashes)s::text[], %(hints)s::text[], %(reasons)s::text[],"
        " %(notes)s::text[]) AS s"
        " ON CONFLICT (tenant_id, address_hash) DO NOTHING"
        " RETURNING address_hash, address_hint, reason",
        {
            "tenant": tenant_id,
            "source": source_message_id,
            "now": now,
            "hashes": [digest for digest, _ in rows],
            "hints": [hint(new.address) for _, new in rows],
            "reasons": [str(new.reason) for _, new in rows],
            "notes": [new.note for _, new in rows],
        },
    )
    for _, _, reason in inserted:
        metrics.count(metrics.SUPPRESSED_RECIPIENTS, reason)
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


def suppress_by_hand(
    wanted: NewSuppression, *, tenant_id: str, actor_key_id: str, now: datetime
) -> tuple[Suppression, bool]:
    """Suppress an address because a client says so; return its row, and if it is new.

    Joins the caller's transaction. The event is the tenant's: no mailbox is its cause.
    """
    found = _rows_of(wanted.address, tenant_id)
    events: list[NewEvent] = []
    while (row := found.first()) is None:  # again only if it was just lifted
        events = suppress(
            [wanted], tenant_id=tenant_id, source_message_id=None, now=now
        )
    for event in events:
        publish_of_tenant(event, tenant_id=tenant_id, now=now)
        _audit("suppression.create", row, actor_key_id)
    return row, bool(events)


@transaction.atomic(durable=True)
def lift(
    address: str, *, tenant_id: str, confirms_complaint: bool, actor_key_id: str
) -> None:
    """Let an address be written to again.

    Raises SuppressionNotFound; and InvalidRequest for a complaint, unless the caller
    says that it means it.
    """
    _lift(_rows_of(address, tenant_id), confirms_complaint, actor_key_id)


@transaction.atomic(durable=True)
def lift_row(row_id: int, *, confirms_complaint: bool) -> None:
    """Lift a suppression whose address nobody knows but by its hash; as ``lift``."""
    _lift(Suppression.objects.filter(pk=row_id), confirms_complaint, None)


def _lift(
    rows: QuerySet[Suppression], confirms_complaint: bool, actor_key_id: str | None
) -> None:
    row = rows.select_for_update(no_key=True).first()
    if row is None:
        raise SuppressionNotFound("This address is not suppressed.")
    if row.reason == SuppressionReason.COMPLAINT and not confirms_complaint:
        raise InvalidRequest.at(
            "confirm_complaint_removal",
            "Somebody complained about mail to this address: say true to lift it.",
        )
    row.delete()
    _audit("suppression.delete", row, actor_key_id)


def _rows_of(address: str, tenant_id: str) -> QuerySet[Suppression]:
    return Suppression.objects.filter(
        tenant_id=tenant_id, address_hash=address_hash(address)
    )


def _audit(action: str, row: Suppression, actor_key_id: str | None) -> None:
    audit(
        action,
        tenant_id=row.tenant_id,
        target_type="suppression",
        target_id=pseudonym_of(row.address_hash),
        details={"reason": row.reason},
        actor_key_id=actor_key_id,
    )


def _event_id(tenant_id: str, digest: str, created_at: datetime) -> str:
    """Return the one id of a suppression's event, however often it is raised.

    A ULID with the row's time and ten bytes of a keyed hash (the page, "Suppressions").
    """
    milliseconds = int(created_at.timestamp() * 1000)
    text = f"suppression:{tenant_id}{digest}{milliseconds}"
    random_part = hmac.new(settings.PM_HASH_KEY, text.encode(), sha256).digest()[:10]
    return f"evt_{ULID(milliseconds.to_bytes(6, 'big') + random_part)}"
