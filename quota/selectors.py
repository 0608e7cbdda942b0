"""Reading a tenant's quota without its lock: most refusals stop here."""

import json
from datetime import UTC, datetime, timedelta
from typing import Final

from core.database import fetch_all
from quota.caps import Caps
from quota.counting import refuse_if_reached
from quota.days import TenantDays

_COUNTS: Final = """
SELECT t.timezone, t.tz_next, c.metric, c.bucket, c.value
  FROM tenants t
  LEFT JOIN counters c
    ON c.tenant_id = t.id AND c.metric = ANY(%(metrics)s) AND c.bucket = ANY(%(days)s)
 WHERE t.id = %(tenant)s
"""


def peek_at_caps(tenant_id: str, caps: Caps, *, now: datetime) -> None:
    """Raise DailyCapReached if a cap is reached already; one statement, no lock.

    A send that passes is counted under the lock, by ``quota.services.reserve``.
    """
    today = now.astimezone(UTC).date()
    around = [(today + timedelta(days=n)).isoformat() for n in (-1, 0, 1)]
    rows = fetch_all(
        _COUNTS, {"tenant": tenant_id, "metrics": list(caps.metrics()), "days": around}
    )
    timezone, tz_next = rows[0][0], rows[0][1]
    days = TenantDays.of_row(timezone, json.loads(tz_next) if tz_next else None)
    day = days.day(now).isoformat()
    counts = {metric: value for *_, metric, bucket, value in rows if bucket == day}
    refuse_if_reached(caps, counts, days.resets_at(now))
