"""What a tenant used, by days in UTC: counted as it happens, kept in ``usage_daily``.

Counters rise in the transaction of what they count (outbound tables, section 10), and
beat writes them down, each tenant at most once an hour (quota, part A10).
"""

from datetime import datetime, timedelta
from typing import Final

from django.db import transaction
from django.db.models import F, Q

from core.clock import database_now
from core.database import execute, fetch_one
from core.sweeps import one_by_one
from quota.accounts import lock_account
from quota.counts import count_again
from quota.models import QuotaAccount
from quota.statuses import Metric

SWEEP_BATCH: Final = 5000
ROLL_EVERY: Final = timedelta(hours=1)
KEPT_DAYS: Final = 92
COUNTED_DAYS: Final = 2
"""How long a counter stands after its day; it is written down long before."""

_PREFIX: Final = "usage:"
_METRICS: Final = [f"{_PREFIX}{metric}" for metric in Metric.values]


def count_inbound(tenant_id: str, *, now: datetime) -> None:
    """Count one message that came in; joins the transaction that commits it."""
    execute(
        "INSERT INTO counters (tenant_id, metric, bucket, value)"
        " VALUES (%(tenant)s, 'usage:inbound', %(day)s, 1)"
        " ON CONFLICT (tenant_id, metric, bucket)"
        " DO UPDATE SET value = counters.value + 1",
        {"tenant": tenant_id, "day": now.date().isoformat()},
    )


def roll_up() -> int:
    """Measure and write down what is due, and return of how many tenants.

    A store that cannot be measured keeps nothing else from being written down.
    """
    due = QuotaAccount.objects.filter(_due(database_now()))
    oldest = due.order_by(F("usage_rolled_at").asc(nulls_first=True))
    ids = list(oldest.values_list("tenant_id", flat=True)[:SWEEP_BATCH])
    one_by_one("storage_measure", ids, _measure)
    return one_by_one("usage_roll", ids, _roll_one)


def _due(now: datetime) -> Q:
    before = Q(usage_rolled_at__lte=now - ROLL_EVERY)
    return before | Q(usage_rolled_at__isnull=True)


_STORED: Final = """
WITH mail AS MATERIALIZED (
  SELECT m.pk, CASE WHEN m.raw_key IS NULL THEN 0 ELSE m.raw_size END AS size
    FROM identities i JOIN messages m ON m.identity_id = i.id
   WHERE i.tenant_id = %(tenant)s
)
SELECT (coalesce((SELECT sum(size) FROM mail), 0)
        + coalesce((SELECT sum(a.size) FROM mail
                      JOIN attachments a ON a.message_pk = mail.pk), 0))::bigint
"""
"""The octets that a tenant has in the object store: raw mail, sent copies, files."""

_MEASURED: Final = """
WITH gate AS (
  UPDATE allowances SET used = ceil(%(stored)s::numeric / 2 ^ 30)
   WHERE tenant_id = %(tenant)s AND feature = 'storage_gb'
)
INSERT INTO counters (tenant_id, metric, bucket, value)
VALUES (%(tenant)s, 'usage:storage_bytes', %(day)s, %(stored)s)
ON CONFLICT (tenant_id, metric, bucket) DO UPDATE SET value = EXCLUDED.value
"""


def _measure(tenant_id: str) -> bool:
    """Measure a tenant's store, before any lock: it takes as long as there is mail."""
    with transaction.atomic(durable=True):
        execute("SET LOCAL statement_timeout = '60s'")
        row = fetch_one(_STORED, {"tenant": tenant_id})
    assert row is not None  # noqa: S101  sums of nothing are one row
    with transaction.atomic(durable=True):
        today = lock_account(tenant_id).asked_at.date()
        execute(
            _MEASURED,
            {"tenant": tenant_id, "stored": row[0], "day": today.isoformat()},
        )
    return True


_ROLL: Final = """
WITH written AS (
  INSERT INTO usage_daily (tenant_id, day, metric, value)
  SELECT tenant_id, bucket::date, substr(metric, length('usage:') + 1), value
    FROM counters WHERE tenant_id = %(tenant)s AND metric = ANY(%(metrics)s)
  ON CONFLICT (tenant_id, day, metric) DO UPDATE SET value = EXCLUDED.value
), dropped AS (
  DELETE FROM counters WHERE tenant_id = %(tenant)s AND metric = ANY(%(metrics)s)
     AND bucket < %(counted_from)s
), forgotten AS (
  DELETE FROM usage_daily
   WHERE tenant_id = %(tenant)s AND day < %(kept_from)s::date
)
UPDATE quota_accounts SET usage_rolled_at = %(now)s WHERE tenant_id = %(tenant)s
"""
"""Every counter that stands is written down: a beat that was away for days loses none.

A day that is over changes no more, so it is the same however often it is written.
"""


@transaction.atomic(durable=True)
def _roll_one(tenant_id: str) -> bool:
    now = lock_account(tenant_id).asked_at
    if not QuotaAccount.objects.filter(_due(now), tenant_id=tenant_id).exists():
        return False
    count_again(tenant_id)
    execute(
        _ROLL,
        {
            "tenant": tenant_id,
            "metrics": _METRICS,
            "counted_from": (now - timedelta(days=COUNTED_DAYS)).date().isoformat(),
            "kept_from": (now - timedelta(days=KEPT_DAYS)).date(),
            "now": now,
        },
    )
    return True
