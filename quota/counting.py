"""The rows of the daily caps. Each function joins a transaction that holds the account.

``quota.services`` takes the lock; the rules are in ``quota.caps`` and ``quota.days``.
"""

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Final

from core.database import execute, fetch_all
from core.ids import new_id
from quota.caps import Caps, QuotaWarning, Reservation, cap_reached, warning_marks
from quota.days import TenantDays
from quota.errors import DailyCapReached

HOLD_FOR: Final = timedelta(seconds=600)

_COUNT: Final = """
WITH known AS (
  SELECT w.metric, w.cap, coalesce(c.value, 0) AS value
    FROM unnest(%(metrics)s::text[], %(caps)s::bigint[]) AS w(metric, cap)
    LEFT JOIN counters c
      ON c.tenant_id = %(tenant)s AND c.metric = w.metric AND c.bucket = %(day)s
), raised AS (
  INSERT INTO counters (tenant_id, metric, bucket, value)
  SELECT %(tenant)s, metric, %(day)s, 1 FROM known
   WHERE NOT EXISTS (SELECT 1 FROM known WHERE value >= cap)
  ON CONFLICT (tenant_id, metric, bucket) DO UPDATE SET value = counters.value + 1
  RETURNING metric, value
), held AS (
  INSERT INTO holds (id, tenant_id, feature, ref, units, expires_at, identity_id, day,
                     tenant_counted)
  SELECT %(hold)s, %(tenant)s, 'sends', %(ref)s, %(units)s, %(expires)s, %(identity)s,
         %(day)s::date, %(tenant_counted)s
   WHERE %(units)s > 0 AND NOT EXISTS (SELECT 1 FROM known WHERE value >= cap)
  ON CONFLICT (tenant_id, feature, ref) DO NOTHING
  RETURNING units
), allowed AS (
  UPDATE allowances SET held = allowances.held + held.units FROM held
   WHERE tenant_id = %(tenant)s AND feature = 'sends'
)
SELECT known.metric, known.value, raised.value
  FROM known LEFT JOIN raised USING (metric)
"""


def count_send(
    tenant_id: str,
    caps: Caps,
    *,
    ref: str,
    units: int,
    days: TenantDays,
    now: datetime,
) -> Reservation:
    """Count one message on the tenant's day and hold its units, or do neither.

    One statement: it stands on the path of every send. Raises DailyCapReached, and has
    written nothing then.
    """
    day, resets_at = days.day(now), days.resets_at(now)
    metrics = caps.metrics()
    rows = fetch_all(
        _COUNT,
        {
            "tenant": tenant_id,
            "day": day.isoformat(),
            "metrics": list(metrics),
            "caps": [cap for _, cap in metrics.values()],
            "hold": new_id("hld"),
            "ref": ref,
            "units": units,
            "expires": now + HOLD_FOR,
            "identity": caps.identity_id,
            "tenant_counted": caps.tenant is not None,
        },
    )
    refuse_if_reached(caps, {metric: value for metric, value, _ in rows}, resets_at)
    used = {metric: value for metric, _, value in rows}
    by_scope = {str(metrics[metric][0]): value for metric, value in used.items()}
    return Reservation(
        day=day,
        resets_at=resets_at,
        identity_used=by_scope["identity"],
        tenant_used=by_scope.get("tenant"),
        warnings=_first_warnings(tenant_id, caps, used, day),
    )


def refuse_if_reached(
    caps: Caps, counts: Mapping[str, int], resets_at: datetime
) -> None:
    """Raise DailyCapReached if the counts leave no room for one message more."""
    scope = cap_reached(caps, counts)
    if scope is not None:
        instant = resets_at.isoformat().replace("+00:00", "Z")
        raise DailyCapReached(
            f"The {scope} has sent all that it may on this day.",
            details={"cap": str(scope), "resets_at": instant},
        )


def uncount_send(
    tenant_id: str, *, identity_id: str, day: date, tenant_counted: bool
) -> None:
    """Give back one message of a day, to whomever it was counted on."""
    metrics = list(Caps(identity_id, 0, 0 if tenant_counted else None).metrics())
    execute(
        "UPDATE counters SET value = value - 1 WHERE tenant_id = %(tenant)s"
        " AND metric = ANY(%(metrics)s) AND bucket = %(day)s AND value > 0",
        {"tenant": tenant_id, "metrics": metrics, "day": day.isoformat()},
    )


def _first_warnings(
    tenant_id: str, caps: Caps, used: Mapping[str, int], day: date
) -> tuple[QuotaWarning, ...]:
    """Return what is to be told now: a mark that is new on its day."""
    reached = {
        mark: QuotaWarning(scope, percent, used[metric], cap)
        for metric, (scope, cap) in caps.metrics().items()
        for mark, percent in warning_marks(metric, used=used[metric], cap=cap).items()
    }
    new = _mark(tenant_id, list(reached), day) if reached else frozenset()
    return tuple(warning for mark, warning in reached.items() if mark in new)


def _mark(tenant_id: str, marks: Sequence[str], day: date) -> frozenset[str]:
    rows = fetch_all(
        "INSERT INTO counters (tenant_id, metric, bucket, value)"
        " SELECT %(tenant)s, mark, %(day)s, 1 FROM unnest(%(marks)s::text[]) AS mark"
        " ON CONFLICT (tenant_id, metric, bucket) DO NOTHING RETURNING metric",
        {"tenant": tenant_id, "marks": marks, "day": day.isoformat()},
    )
    return frozenset(mark for (mark,) in rows)
