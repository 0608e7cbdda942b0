"""Quota set aside, spent and given back (quota, part A5).

Every function that changes a tenant's quota locks its account row first, last of all
locks, and briefly. ``held`` is always the sum of the open holds.
"""

from datetime import datetime, timedelta

from django.db import transaction

from core.clock import database_now
from core.database import execute, fetch_one
from core.ids import new_id
from core.sweeps import one_by_one
from mailboxes.models import Message
from mailboxes.services import lock_mailbox
from mailboxes.statuses import MessageStatus
from quota.models import Hold

HOLD_FOR = timedelta(seconds=600)
SWEEP_BATCH = 500


def reserve(tenant_id: str, *, ref: str, units: int, now: datetime) -> None:
    """Hold units for one send; ``ref`` is the new message's id.

    Joins the caller's transaction. A hold that stands already is kept. No plan limits
    the allowance yet, so this never refuses.
    """
    if units == 0:
        return
    _lock_account(tenant_id)
    execute(
        "WITH added AS ("
        " INSERT INTO holds (id, tenant_id, feature, ref, units, expires_at)"
        " VALUES (%(id)s, %(tenant)s, 'sends', %(ref)s, %(units)s, %(expires)s)"
        " ON CONFLICT (tenant_id, feature, ref) DO NOTHING RETURNING units)"
        " UPDATE allowances SET held = held + added.units FROM added"
        " WHERE tenant_id = %(tenant)s AND feature = 'sends'",
        {
            "id": new_id("hld"),
            "tenant": tenant_id,
            "ref": ref,
            "units": units,
            "expires": now + HOLD_FOR,
        },
    )


def settle(
    tenant_id: str,
    *,
    ref: str,
    consume: int,
    keep: int = 0,
    until: datetime | None = None,
) -> None:
    """Spend ``consume`` units, keep ``keep`` held until then, give back the rest.

    Joins the caller's transaction: the one that moves the deliveries which are charged,
    for without a hold (it expired, or was released when the send became uncertain) the
    units are simply added, and that cannot be repeated.
    """
    _lock_account(tenant_id)
    parameters = {"tenant": tenant_id, "ref": ref, "keep": keep, "consume": consume}
    held = fetch_one(
        "SELECT units FROM holds WHERE tenant_id = %(tenant)s AND feature = 'sends'"
        " AND ref = %(ref)s FOR UPDATE",
        parameters,
    )
    kept = min(keep, held[0]) if held else 0
    if held and kept:
        Hold.objects.filter(tenant_id=tenant_id, ref=ref).update(
            units=kept, expires_at=(until or database_now()) + HOLD_FOR
        )
    elif held:
        Hold.objects.filter(tenant_id=tenant_id, ref=ref).delete()
    execute(
        "UPDATE allowances SET used = used + %(consume)s, held = held - %(freed)s"
        " WHERE tenant_id = %(tenant)s AND feature = 'sends'",
        {**parameters, "freed": (held[0] - kept) if held else 0},
    )


def extend(tenant_id: str, *, ref: str, until: datetime) -> None:
    """Keep a hold for a send that backs off; one that is gone is left alone.

    Joins the caller's transaction.
    """
    _lock_account(tenant_id)
    Hold.objects.filter(tenant_id=tenant_id, ref=ref).update(
        expires_at=until + HOLD_FOR
    )


def release(tenant_id: str, *, ref: str) -> None:
    """Give a hold back; joins the caller's transaction."""
    settle(tenant_id, ref=ref, consume=0)


def sweep_holds() -> int:
    """Give back the holds whose time has ended, and return how many.

    A hold whose message is still queued is pushed on instead: a slow queue must not
    sell a unit twice. Ids are listed without locks, then each is looked at again in its
    own transaction, in the order of locks that everybody keeps.
    """
    expired = Hold.objects.filter(expires_at__lte=database_now())
    rows = list(expired.values_list("id", "tenant_id", "ref")[:SWEEP_BATCH])
    return one_by_one("hold_sweep", rows, _sweep_one)


@transaction.atomic(durable=True)
def _sweep_one(row: tuple[str, str, str]) -> bool:
    hold_id, tenant_id, ref = row
    owner = Message.objects.filter(public_id=ref).values_list("identity_id", flat=True)
    if (identity_id := owner.first()) is not None:
        lock_mailbox(identity_id)
    _lock_account(tenant_id)
    now = database_now()
    hold = Hold.objects.filter(id=hold_id, expires_at__lte=now).first()
    if hold is None:
        return False
    queued = Message.objects.filter(public_id=ref, status=MessageStatus.QUEUED)
    if queued.exists():
        Hold.objects.filter(id=hold_id).update(expires_at=now + HOLD_FOR)
        return False
    settle(tenant_id, ref=ref, consume=0)
    return True


def _lock_account(tenant_id: str) -> None:
    fetch_one(
        "SELECT 1 FROM quota_accounts WHERE tenant_id = %(tenant)s FOR NO KEY UPDATE",
        {"tenant": tenant_id},
    )
