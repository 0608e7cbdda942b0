"""Reading a tenant's quota without its lock: most refusals stop here."""

from datetime import datetime
from typing import Final

from quota.caps import Caps, Counted
from quota.counting import refuse_if_reached

COUNTED: Final = """
jsonb_build_object(
  'timezone', t.timezone, 'tz_next', t.tz_next,
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

Part of a statement that is read anyway; ``quota.caps.Counted`` takes it.
"""


def peek_at_caps(counted: Counted, caps: Caps, *, now: datetime) -> None:
    """Raise DailyCapReached if a cap was reached when the counts were read.

    A send that passes is counted under the lock, by ``quota.services.reserve``.
    """
    refuse_if_reached(caps, counted.on_day_of(now), counted.days.resets_at(now))
