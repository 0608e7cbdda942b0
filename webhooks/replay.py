"""Sending stored events to an endpoint again (REST contract, section 6, "Replay").

One statement chooses the events and makes their rows due: what it counts is what it has
done. Attempt numbers go on, the schedule starts anew.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, LiteralString

from django.conf import settings
from django.db.models import TextChoices

from core.clock import database_now
from core.database import execute
from core.errors import InvalidRequest
from mailboxes.callers import Caller
from mailboxes.policy import effective_policy
from mailboxes.services import audit
from webhooks.catalogue import EVERYTHING, PLATFORM_ONLY, TEST
from webhooks.models import WebhookEndpoint
from webhooks.rules import check_may_hear
from webhooks.selectors import endpoint_in_reach, keep_endpoint

MOST_NAMED: Final = 100
MOST_IN_RANGE: Final = 1000
WINDOW_DAYS: Final = 30
"""Days from ``occurred_at``; a tenant's ``retention.events_days`` may be fewer."""


class ReplayStatus(TextChoices):
    """What became of an event at the endpoint so far."""

    DEAD = "dead"
    FAILED = "failed"
    SUCCEEDED = "succeeded"


@dataclass(frozen=True, slots=True)
class NamedEvents:
    """Events by their ids."""

    event_ids: Sequence[str]


@dataclass(frozen=True, slots=True)
class EventRange:
    """Events that occurred from ``since`` on and before ``until``, if it is given."""

    since: datetime
    until: datetime | None = None
    status: ReplayStatus | None = None


def replay(webhook_id: str, wanted: NamedEvents | EventRange, *, caller: Caller) -> int:
    """Make stored events due at an endpoint; return how many there were.

    Only what its scope and filters cover, has its place in the feed, and is no older
    than the window: an id of anything else is passed over. Joins the caller's
    transaction. Raises WebhookNotFound, PermissionDenied, and InvalidRequest when the
    endpoint is off or a range holds too many.
    """
    endpoint = endpoint_in_reach(webhook_id, caller=caller)
    check_may_hear(endpoint.events, caller=caller)
    if endpoint.disabled_reason is not None:
        raise InvalidRequest(
            "The endpoint is off: enable it, then replay.",
            details={"reason": "endpoint_disabled"},
        )
    keep_endpoint(endpoint)
    dispatched = _make_due(endpoint, wanted)
    audit(
        "webhook.replay",
        tenant_id=endpoint.tenant_id,
        target_type="webhook",
        target_id=endpoint.id,
        details={"dispatched": dispatched},
        actor_key_id=caller.key_id,
    )
    return dispatched


def _make_due(endpoint: WebhookEndpoint, wanted: NamedEvents | EventRange) -> int:
    facts, covered = _facts(endpoint), _INSERT + _covered_by(endpoint)
    if isinstance(wanted, NamedEvents):
        named = facts | {"ids": list(wanted.event_ids)}
        return execute(covered + _NAMED + _UPSERT, named)
    facts |= {"since": wanted.since, "until": wanted.until or facts["now"]}
    became = "" if wanted.status is None else _BECAME[wanted.status]
    rows = execute(covered + _BETWEEN + became + _UPSERT, facts)
    if rows > MOST_IN_RANGE:  # the caller's transaction takes all of them back
        raise InvalidRequest.at(
            "since", f"More than {MOST_IN_RANGE} events lie in the range: narrow it."
        )
    return rows


def _facts(endpoint: WebhookEndpoint) -> dict[str, Any]:
    policy = effective_policy(settings.PM_DEFAULT_POLICY)
    return {
        "endpoint": endpoint.id,
        "tenant": endpoint.tenant_id,
        "types": endpoint.events,
        "identities": endpoint.identity_ids,
        "now": database_now(),
        "window": WINDOW_DAYS,
        "kept": policy["retention"]["events_days"],
        "test": TEST,
        "platform_only": sorted(PLATFORM_ONLY),
        "most": MOST_IN_RANGE + 1,
    }


def _covered_by(endpoint: WebhookEndpoint) -> LiteralString:
    """Return the condition of what an endpoint covers, as ``matching.wants`` has it.

    What does not narrow is left out, and an index answers what does.
    """
    scope = "" if endpoint.tenant_id is None else _OF_TENANT
    types = "" if EVERYTHING in endpoint.events else _OF_TYPES
    return scope + types + ("" if endpoint.identity_ids is None else _OF_IDENTITIES)


_INSERT: Final[LiteralString] = """
INSERT INTO webhook_dispatches (endpoint_id, event_id, event_type, state, due_at)
SELECT %(endpoint)s::text, e.id, e.type, 'pending', %(now)s
  FROM events e LEFT JOIN tenants t ON t.id = e.tenant_id
 WHERE e.position IS NOT NULL AND e.type <> %(test)s
   AND e.occurred_at >= %(now)s - make_interval(days => least(%(window)s,
       coalesce((t.policy #>> '{retention,events_days}')::int, %(kept)s)))
"""
_OF_TENANT: Final[LiteralString] = """
   AND e.tenant_id = %(tenant)s AND e.type <> ALL (%(platform_only)s)
"""
_OF_TYPES: Final[LiteralString] = " AND e.type = ANY (%(types)s)"
_OF_IDENTITIES: Final[LiteralString] = " AND e.identity_id = ANY (%(identities)s)"
_NAMED: Final[LiteralString] = " AND e.id = ANY (%(ids)s)"
_BETWEEN: Final[LiteralString] = """
   AND e.occurred_at >= %(since)s AND e.occurred_at < %(until)s
"""
_UPSERT: Final[LiteralString] = """
 ORDER BY e.position LIMIT %(most)s
    ON CONFLICT (endpoint_id, event_id) DO UPDATE
   SET state = 'pending', step = 0, due_at = EXCLUDED.due_at, rung_at = NULL
"""
# an attempt comes after its event: those since then name all that may be meant
_SINCE: Final[LiteralString] = """
   AND e.id IN (SELECT a.event_id FROM webhook_attempts a
     WHERE a.endpoint_id = %(endpoint)s::text AND a.created_at >= %(since)s
"""
_OF_EVENT: Final[LiteralString] = (
    "SELECT a.status FROM webhook_attempts a"
    " WHERE a.endpoint_id = %(endpoint)s::text AND a.event_id = e.id"
)
_BECAME: Final[Mapping[ReplayStatus, LiteralString]] = {
    ReplayStatus.DEAD: f"{_SINCE} AND a.status = 'dead')"
    f" AND NOT EXISTS ({_OF_EVENT} AND a.status = 'succeeded')",
    ReplayStatus.FAILED: f"{_SINCE} AND a.status = 'failed') AND ({_OF_EVENT}"
    " ORDER BY a.created_at DESC, a.id DESC LIMIT 1) = 'failed'",
    ReplayStatus.SUCCEEDED: f"{_SINCE} AND a.status = 'succeeded')",
}
