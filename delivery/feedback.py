"""Whether a provider says anything of what it was given: one that never does is told.

Without its events nobody sees a bounce, a complaint or a harmful sender. A relay says
nothing back by design, so its domains are left out.
"""

from datetime import datetime, timedelta
from typing import Any, Final

ALERT: Final = "feedback_silent"
"""Open from the day on which a domain's mail was met with silence; its subject."""

SENT: Final = 200
"""So many messages of a day must have brought at least one event, of whatever kind."""

DAY: Final = timedelta(hours=24)

# What we make of a provider's answer to the call is no sign that its events arrive.
_HEARD: Final = """
EXISTS (SELECT FROM provider_events e
         WHERE split_part(e.payload->>'sender', '@', 2) = d.name
           AND e.source IN ('cloudflare', 'ses') AND e.event_id NOT LIKE '%%:sync')
"""
SILENT: Final = f"""
SELECT d.id, jsonb_build_object('domain', d.name) FROM domains d
 WHERE d.transport <> 'smtp' AND d.state NOT IN ('removing', 'removed')
   AND NOT {_HEARD}
   AND (EXISTS (SELECT FROM alerts a WHERE a.name = '{ALERT}' AND a.subject = d.id
                   AND a.resolved_at IS NULL)
        OR %(sent)s <= (SELECT count(*) FROM (
         SELECT FROM addresses a
           JOIN messages m ON m.identity_id = a.identity_id
                          AND m.from_address = a.address
          WHERE a.domain_id = d.id AND m.direction = 'outbound'
            AND m.received_at > %(day)s AND m.provider IN ('cloudflare', 'ses')
          LIMIT %(sent)s) AS sent))
 ORDER BY d.id LIMIT %(batch)s
"""  # noqa: S608  constants only
"""The domains with 200 messages in a day and no event ever, and those told of that
still had none; parameters: ``bounds``, and ``batch``."""


def bounds(now: datetime) -> dict[str, Any]:
    """Return from when on mail counts, and how much of it makes silence a sign."""
    return {"day": now - DAY, "sent": SENT}
