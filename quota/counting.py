"""The rows of allowance and daily caps. Each function joins a transaction that holds
the account.

``quota.services`` takes the lock; the rules are in ``quota.allowances``, ``quota.caps``
and ``quota.days``.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Final

from core.database import execute, fetch_all
from core.ids import new_id
from quota.accounts import Account
from quota.allowances import Standing, refuse_if_spent
from quota.caps import Caps, QuotaWarning, Reservation, cap_reached, warning_marks
from quota.errors import DailyCapReached
from quota.plans import upgrade_url
from quota.statuses import Feature

HOLD_FOR: Final = timedelta(seconds=600)

_TAKE: Final = """
WITH known AS (
  SELECT w.metric, w.cap, coalesce(c.value, 0) AS value
    FROM unnest(%(metrics)s::text[], %(caps)s::bigint[]) AS w(metric, cap)
    LEFT JOIN counters c
      ON c.tenant_id = %(tenant)s AND c.metric = w.metric AND c.bucket = %(day)s
), wanted AS (
  SELECT %(units)s::bigint AS units
   WHERE %(units)s > 0 AND NOT EXISTS (
     SELECT FROM holds
      WHERE tenant_id = %(tenant)s AND feature = 'sends' AND ref = %(ref)s)
), asked AS (
  SELECT a.feature, a.granted, a.used, a.held,
         coalesce(a.limit_marked_for >= %(period)s, false) AS is_marked
    FROM allowances a, wanted
   WHERE %(is_limited)s AND a.tenant_id = %(tenant)s
     AND a.feature = ANY(%(features)s::text[])
), fits AS (
  SELECT WHERE NOT EXISTS (SELECT FROM known WHERE value >= cap)
     AND NOT EXISTS (SELECT FROM asked, wanted WHERE granted < CASE feature
                       WHEN 'sends' THEN used + held + units ELSE used END)
), raised AS (
  INSERT INTO counters (tenant_id, metric, bucket, value)
  SELECT %(tenant)s, metric, %(day)s, 1 FROM known, fits
  ON CONFLICT (tenant_id, metric, bucket) DO UPDATE SET value = counters.value + 1
  RETURNING metric, value
), held AS (
  INSERT INTO holds (id, tenant_id, feature, ref, units, expires_at, identity_id, day,
                     tenant_counted)
  SELECT %(hold)s, %(tenant)s, 'sends', %(ref)s, units, %(expires)s, %(identity)s,
         %(cap_day)s::date, %(tenant_counted)s
    FROM wanted, fits
  RETURNING units
), allowed AS (
  UPDATE allowances SET held = allowances.held + held.units FROM held
   WHERE tenant_id = %(tenant)s AND feature = 'sends'
)
SELECT (SELECT jsonb_agg(jsonb_build_array(feature, granted, used, held, is_marked))
          FROM asked),
       (SELECT units FROM wanted), known.metric, known.value, raised.value
  FROM (SELECT) AS one LEFT JOIN known ON true LEFT JOIN raised USING (metric)
"""


def take(
    tenant_id: str,
    account: Account,
    caps: Caps | None,
    *,
    ref: str,
    units: int,
    gates: Collection[Feature],
    now: datetime,
) -> Reservation:
    """Hold a message's units and count it on the tenant's day, or do neither.

    One statement: it stands on the path of every send. Raises BillingLimit, or else
    DailyCapReached, and has written nothing then.
    """
    day, resets_at = account.days.day(now), account.days.resets_at(now)
    metrics = caps.metrics() if caps else {}
    rows = fetch_all(
        _TAKE,
        {
            "tenant": tenant_id,
            "is_limited": account.is_limited,
            "period": account.period.start,
            "features": [str(feature) for feature in (Feature.SENDS, *gates)],
            "day": day.isoformat(),
            "metrics": list(metrics),
            "caps": [cap for _, cap in metrics.values()],
            "hold": new_id("hld"),
            "ref": ref,
            "units": units,
            "expires": now + HOLD_FOR,
            "identity": caps.identity_id if caps else None,
            "cap_day": day if caps else None,
            "tenant_counted": caps is not None and caps.tenant is not None,
        },
    )
    asked, wanted = json.loads(rows[0][0] or "[]"), rows[0][1] or 0
    refuse_if_spent(
        [Standing(Feature(name), *rest) for name, *rest in asked],
        tenant_id=tenant_id,
        units=wanted,
        gates=gates,
        period=account.period,
        upgrade_url=upgrade_url(),
    )
    if caps is None:
        return Reservation()
    counts = {metric: value for *_, metric, value, _ in rows}
    refuse_if_reached(caps, counts, resets_at)
    used = {metric: value for *_, metric, _, value in rows}
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
