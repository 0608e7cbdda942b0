"""Whether a provider says anything of what it was given: one that never does is told.

Without its events nobody sees a bounce, a complaint or a harmful sender. A relay says
nothing back by design, so its domains are left out.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from core.clock import database_now
from core.database import fetch_all
from mailboxes.services import raise_alert, resolve_alerts

ALERT: Final = "feedback_silent"
"""Open from the day on which a domain's mail was met with silence; its subject."""

SENT: Final = 200
"""So many messages of a day must have brought at least one event, of whatever kind."""

DAY: Final = timedelta(hours=24)
BATCH: Final = 100

# What we make of a provider's answer to the call is no sign that its events arrive.
_HEARD: Final = """
EXISTS (SELECT FROM provider_events e
         WHERE split_part(e.payload->>'sender', '@', 2) = d.name
           AND e.source IN ('cloudflare', 'ses') AND e.event_id NOT LIKE '%%:sync')
"""
_SILENT: Final = f"""
SELECT d.id, d.name FROM domains d
 WHERE d.transport <> 'smtp' AND d.state NOT IN ('removing', 'removed')
   AND NOT {_HEARD}
   AND %(sent)s <= (SELECT count(*) FROM (
         SELECT FROM addresses a
           JOIN messages m ON m.identity_id = a.identity_id
                          AND m.from_address = a.address
          WHERE a.domain_id = d.id AND m.direction = 'outbound'
            AND m.received_at > %(since)s AND m.provider IN ('cloudflare', 'ses')
          LIMIT %(sent)s) AS sent)
 ORDER BY d.id LIMIT %(batch)s
"""  # noqa: S608  constants only
_ENDED: Final = f"""
SELECT a.subject FROM alerts a LEFT JOIN domains d ON d.id = a.subject
 WHERE a.name = %(alert)s AND a.resolved_at IS NULL
   AND (d.id IS NULL OR d.transport = 'smtp' OR d.state IN ('removing', 'removed')
        OR {_HEARD})
 LIMIT %(batch)s
"""  # noqa: S608  constants only


@dataclass(frozen=True, slots=True)
class SilentDomain:
    """A domain whose mail has gone out, and of which no provider ever said anything."""

    id: str
    name: str


def silent_domains() -> list[SilentDomain]:
    """Return the domains with 200 messages in a day and no event ever; 100 at most."""
    since = database_now() - DAY
    rows = fetch_all(_SILENT, {"sent": SENT, "since": since, "batch": BATCH})
    return [SilentDomain(*row) for row in rows]


def check_feedback() -> int:
    """Alert of each silent domain, and close the alerts of those that were heard since.

    Two statements, and one for each alert that is raised or closed: at most 100 of
    each kind in one run. Returns how many domains are silent.
    """
    silent = silent_domains()
    for domain in silent:
        raise_alert(ALERT, subject=domain.id, details={"domain": domain.name})
    for (subject,) in fetch_all(_ENDED, {"alert": ALERT, "batch": BATCH}):
        resolve_alerts(ALERT, subject=subject)
    return len(silent)
