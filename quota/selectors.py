"""Reading a tenant's quota without its lock: most refusals stop here."""

from collections.abc import Collection
from datetime import datetime
from typing import Final

from quota.allowances import refuse_if_spent
from quota.caps import Caps, Counted
from quota.counting import refuse_if_reached
from quota.plans import catalogue_digest, is_billing_on, upgrade_url
from quota.statuses import Feature

COUNTED: Final = """
jsonb_build_object(
  'timezone', t.timezone, 'tz_next', t.tz_next,
  'account', (SELECT jsonb_build_object(
                'tenant_id', t.id, 'catalog_hash', a.catalog_hash,
                'period', jsonb_build_array(a.period_start, a.period_end),
                'rows', (SELECT jsonb_agg(jsonb_build_array(
                                  feature, granted, used, held,
                                  coalesce(limit_marked_for >= a.period_start, false)))
                           FROM allowances WHERE tenant_id = t.id))
                FROM quota_accounts a
               WHERE a.tenant_id = t.id AND a.mode = 'metered'),
  'counts', (SELECT coalesce(jsonb_agg(jsonb_build_array(metric, bucket, value)), '[]')
               FROM counters
              WHERE tenant_id = t.id AND metric = ANY(ARRAY['sends', 'sends:' || i.id])
                AND bucket = ANY(ARRAY(
                  SELECT to_char((clock_timestamp() + %(clock_offset)s)
                                   AT TIME ZONE 'UTC' + day * interval '1 day',
                                 'YYYY-MM-DD')
                    FROM generate_series(-1, 1) day))))
"""
"""The counts of a tenant ``t`` and its identity ``i``, on the days that may be today.

With them the allowances of a metered tenant.

Part of a statement that is read anyway; ``quota.caps.Counted`` takes it.
"""


def peek_at_quota(
    counted: Counted,
    caps: Caps,
    *,
    now: datetime,
    units: int = 0,
    gates: Collection[Feature] = (),
) -> None:
    """Raise what ``quota.services.reserve`` would have raised when this was read.

    BillingLimit, or else DailyCapReached. A send that passes is judged again, under the
    lock; so is one of an account that has to be brought up to date first.
    """
    account = counted.account if is_billing_on() else None
    if account is not None:
        if now >= account.period.end or account.catalog_hash != catalogue_digest():
            return
        refuse_if_spent(
            account.standings,
            tenant_id=account.tenant_id,
            units=units,
            gates=gates,
            period=account.period,
            upgrade_url=upgrade_url(),
        )
    refuse_if_reached(caps, counted.on_day_of(now), counted.days.resets_at(now))
