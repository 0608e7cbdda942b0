"""The latest outcomes of each identity's mail, and the pause that bad ones lead to.

Everything joins the caller's transaction, which holds the mailbox: outcomes of one
identity come one after the other (architecture, section 5).
"""

from datetime import datetime
from typing import Final

from django.conf import settings

from core.canonical import sha256_hex
from core.database import fetch_one
from mailboxes.models import Identity
from mailboxes.policy import effective_policy
from mailboxes.services import pause_for_abuse
from quota.models import RecentOutcome
from quota.windows import BOUNCE_WINDOW, COMPLAINT_WINDOW, Counted, Outcome

# A statement does not see what it inserts: the new row is the newest, at place 0.
_RECORD: Final = """
WITH added AS (
  INSERT INTO outcomes (tenant_id, identity_id, event_hash, outcome, is_judged, at)
  SELECT %(tenant)s, id, %(event)s, %(outcome)s,
         pause_reason IS NOT DISTINCT FROM 'abuse_threshold', %(now)s
    FROM identities WHERE id = %(identity)s
  ON CONFLICT (identity_id, event_hash) DO NOTHING
  RETURNING outcome, is_judged
), earlier AS (
  SELECT seq, outcome, is_judged, row_number() OVER (ORDER BY seq DESC) AS place
    FROM (SELECT seq, outcome, is_judged FROM outcomes
           WHERE identity_id = %(identity)s ORDER BY seq DESC
           LIMIT %(complaint_window)s) AS newest
), outlived AS (
  DELETE FROM outcomes
   WHERE identity_id = %(identity)s AND EXISTS (SELECT FROM added)
     AND seq <= (SELECT seq FROM earlier WHERE place = %(complaint_window)s)
), counted AS (
  SELECT outcome, is_judged, 0 AS place FROM added
  UNION ALL
  SELECT outcome, is_judged, place FROM earlier WHERE EXISTS (SELECT FROM added)
)
SELECT count(*) FILTER (WHERE outcome = 'complained' AND place < %(complaint_window)s),
       count(*) FILTER (WHERE outcome = 'bounced' AND place < %(bounce_window)s)
  FROM counted WHERE NOT is_judged
"""


def record_outcome(
    tenant_id: str, identity_id: str, outcome: Outcome, *, event_id: str, now: datetime
) -> bool:
    """Count an outcome, and pause the identity once its windows hold too many bad ones.

    ``event_id`` names the event that told of it, whatever its source; one that stands
    in the window changes nothing. Tells whether the identity was paused by this.
    """
    row = fetch_one(
        _RECORD,
        {
            "tenant": tenant_id,
            "identity": identity_id,
            "event": sha256_hex(event_id.encode()),
            "outcome": str(outcome),
            "now": now,
            "complaint_window": COMPLAINT_WINDOW,
            "bounce_window": BOUNCE_WINDOW,
        },
    )
    assert row is not None  # noqa: S101  a count gives a row
    counted = Counted(*row)
    return any(row) and _judge(identity_id, counted, now=now)


def _judge(identity_id: str, counted: Counted, *, now: datetime) -> bool:
    """Pause the identity if that is too much; the system's own never is.

    What led to the pause leads to no other, nor does what comes in while it lasts:
    whoever resumes the identity has seen it, and it starts with empty windows.
    """
    identity = Identity.objects.select_related("tenant").get(id=identity_id)
    policy = effective_policy(settings.PM_DEFAULT_POLICY, identity.tenant.policy)
    if identity.is_system or not counted.is_abuse(policy["abuse"]):
        return False
    paused = pause_for_abuse(
        identity_id, identity.tenant_id, metrics=counted.metrics(), now=now
    )
    if paused:
        RecentOutcome.objects.filter(identity=identity).update(is_judged=True)
    return paused
