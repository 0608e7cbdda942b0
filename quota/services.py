"""Quota set aside, spent and given back (quota, part A5).

Every function that changes a tenant's quota locks its account row first, last of all
locks, and briefly. ``held`` is always the sum of the open holds.
"""

from collections.abc import Collection
from datetime import date, datetime
from typing import Final

import structlog
from django.db import transaction

from core.clock import database_now
from core.database import fetch_one
from core.errors import InvalidRequest
from core.metrics import QUOTA_CONSUMED_WITHOUT_HOLD, QUOTA_HOLD_EXPIRED, count
from core.points import reach
from core.sweeps import one_by_one
from mailboxes.models import Message, Tenant
from mailboxes.services import NewEvent, lock_mailbox
from mailboxes.statuses import MessageStatus
from quota.accounts import lock_account
from quota.caps import Caps, Reservation
from quota.counting import HOLD_FOR, take, uncount_send
from quota.counts import expire_count
from quota.days import TenantDays
from quota.models import Hold
from quota.statuses import Feature

SWEEP_BATCH = 500

log = structlog.get_logger()


def reserve(
    tenant_id: str,
    *,
    ref: str,
    units: int,
    now: datetime,
    caps: Caps | None = None,
    gates: Collection[Feature] = (),
) -> Reservation:
    """Hold units for one send, and count it on its day; ``ref`` is the message's id.

    Joins the caller's transaction. Without units (everybody is suppressed) nothing is
    held and the message counts all the same; without caps it is not counted. A hold
    that stands already is kept. ``gates`` are features that must not be overdrawn.
    Raises BillingLimit, or else DailyCapReached, and has taken nothing then.
    """
    if units == 0 and caps is None:
        return Reservation()
    account = lock_account(tenant_id)
    return take(tenant_id, account, caps, ref=ref, units=units, gates=gates, now=now)


def warning_events(taken: Reservation) -> list[NewEvent]:
    """Return the ``quota.warning`` events of a reservation, for ``publish``."""
    return [NewEvent("quota.warning", w.event_data()) for w in taken.warnings]


_SETTLE: Final = """
WITH hold AS (
  SELECT id, units, least(%(keep)s, units) AS kept FROM holds
   WHERE tenant_id = %(tenant)s AND feature = 'sends' AND ref = %(ref)s
), ended AS (
  DELETE FROM holds USING hold WHERE holds.id = hold.id AND hold.kept = 0
), prolonged AS (
  UPDATE holds SET units = hold.kept, expires_at = %(expires)s
    FROM hold WHERE holds.id = hold.id AND hold.kept > 0
), charged AS (
  UPDATE allowances SET used = used + %(consume)s,
         held = held - coalesce((SELECT units - kept FROM hold), 0)
   WHERE tenant_id = %(tenant)s AND feature = 'sends'
), counted AS (
  INSERT INTO counters (tenant_id, metric, bucket, value)
  SELECT %(tenant)s, metric, %(day)s, n
    FROM (VALUES ('usage:outbound', %(messages)s::bigint),
                 ('usage:sends', %(consume)s::bigint)) AS used(metric, n)
   WHERE n > 0
  ON CONFLICT (tenant_id, metric, bucket)
  DO UPDATE SET value = counters.value + EXCLUDED.value
)
SELECT units FROM hold
"""


def settle(
    tenant_id: str,
    *,
    ref: str,
    consume: int,
    keep: int = 0,
    until: datetime | None = None,
    is_first: bool = False,
) -> None:
    """Spend ``consume`` units, keep ``keep`` held until then, give back the rest.

    ``is_first``: nothing of the message was charged before, so that it counts as one
    more that a transport took.

    Joins the caller's transaction: the one that moves the deliveries which are charged,
    for without a hold (it expired, or was released when the send became uncertain) the
    units are simply added, and that cannot be repeated. What is spent may exceed what
    was granted: the mail has left.
    """
    account = lock_account(tenant_id)
    held = fetch_one(
        _SETTLE,
        {
            "tenant": tenant_id,
            "ref": ref,
            "consume": consume,
            "messages": int(is_first),
            "keep": keep,
            "expires": (until or account.asked_at) + HOLD_FOR,
            "day": account.asked_at.date().isoformat(),
        },
    )
    if consume and held is None:
        log.info("quota_consumed_without_hold", message_id=ref, count=consume)
        count(QUOTA_CONSUMED_WITHOUT_HOLD)


def release(tenant_id: str, *, ref: str) -> None:
    """Give a hold back; joins the caller's transaction."""
    settle(tenant_id, ref=ref, consume=0)


def unreserve(tenant_id: str, *, ref: str) -> None:
    """Give back all that a send had set aside: its hold, and its place on its day.

    For a send that never happened. Joins the caller's transaction. Does nothing
    without a hold.
    """
    lock_account(tenant_id)
    hold = Hold.objects.filter(tenant_id=tenant_id, ref=ref).first()
    settle(tenant_id, ref=ref, consume=0)
    if hold is not None and hold.identity_id is not None and hold.day is not None:
        uncount_send(
            tenant_id,
            identity_id=hold.identity_id,
            day=hold.day,
            tenant_counted=hold.tenant_counted,
        )


def release_day(
    tenant_id: str, *, identity_id: str, day: date, is_system: bool = False
) -> None:
    """Give back a canceled message's place on the day that it was counted on.

    ``day`` is the message's ``cap_day``; the system identity counts on no tenant's cap.
    Joins the caller's transaction. Give each message back once.
    """
    lock_account(tenant_id)
    uncount_send(
        tenant_id, identity_id=identity_id, day=day, tenant_counted=not is_system
    )


@transaction.atomic
def change_timezone(tenant_id: str, wanted: str) -> TenantDays:
    """Give a tenant another time zone, from the next midnight of the one it has.

    Joins the caller's transaction, if there is one. Raises InvalidRequest with the path
    ``timezone`` for a name that is no IANA zone.
    """
    days = lock_account(tenant_id).days
    now = database_now()
    try:
        changed = days.changed_to(wanted, now=now)
    except ValueError:
        raise InvalidRequest.at("timezone", "No such IANA time zone.") from None
    Tenant.objects.filter(id=tenant_id).update(
        timezone=changed.timezone, tz_next=changed.tz_next(), updated_at=now
    )
    return changed


def sweep_holds() -> int:
    """Give back the holds whose time has ended, and return how many.

    A hold whose message is still queued is pushed on instead: a slow queue must not
    sell a unit twice. Ids are listed without locks, then each is looked at again in its
    own transaction, in the order of locks that everybody keeps.
    """
    expired = Hold.objects.filter(expires_at__lte=database_now())
    rows = list(expired.values_list("id", "tenant_id", "feature", "ref")[:SWEEP_BATCH])
    reach("hold_sweep.listed")
    return one_by_one("hold_sweep", rows, _sweep_one)


@transaction.atomic(durable=True)
def _sweep_one(row: tuple[str, str, str, str]) -> bool:
    hold_id, tenant_id, feature, ref = row
    if feature == Feature.SENDS:
        ended = _end_send(hold_id, tenant_id, ref)
    else:
        ended = expire_count(tenant_id, Feature(feature), ref=ref)
    if ended:
        log.info("quota_hold_expired", message_id=ref)
        count(QUOTA_HOLD_EXPIRED, feature)
    return ended


def _end_send(hold_id: str, tenant_id: str, ref: str) -> bool:
    owner = Message.objects.filter(public_id=ref).values_list("identity_id", flat=True)
    identity_id = owner.first()
    if identity_id is not None:
        lock_mailbox(identity_id)
    lock_account(tenant_id)
    now = database_now()
    hold = Hold.objects.filter(id=hold_id, expires_at__lte=now).first()
    if hold is None:
        return False
    queued = Message.objects.filter(public_id=ref, status=MessageStatus.QUEUED)
    is_queued = queued.exists()
    reach("hold_sweep.judged")
    if is_queued:
        Hold.objects.filter(id=hold_id).update(expires_at=now + HOLD_FOR)
        return False
    if identity_id is None:
        unreserve(tenant_id, ref=ref)  # the send never came about
    else:
        settle(tenant_id, ref=ref, consume=0)
    return True
