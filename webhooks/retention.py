"""What is forgotten with time: events, and how they were delivered."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final, LiteralString

from django.conf import settings

from core.clock import database_now
from core.sweeps import one_by_one, until_none
from mailboxes.models import Tenant
from mailboxes.policy import effective_policy

BATCH: Final = 1000

# The oldest come first in the feed's order: who asks for them reads no more than it
# deletes. An event that an endpoint is still to be told of waits for that.
_PURGE: Final[LiteralString] = """
WITH oldest AS (
  SELECT id, occurred_at FROM events v
   WHERE {of_tenant} AND position IS NOT NULL AND NOT EXISTS (
     SELECT FROM webhook_dispatches d WHERE d.event_id = v.id AND d.state = 'pending')
   ORDER BY position LIMIT %(batch)s
), old AS (
  SELECT id FROM oldest WHERE occurred_at < %(until)s
), told AS (
  DELETE FROM webhook_dispatches d USING old WHERE d.event_id = old.id
  RETURNING d.endpoint_id, d.event_id
), tried AS (
  DELETE FROM webhook_attempts a USING told
   WHERE a.endpoint_id = told.endpoint_id AND a.event_id = told.event_id
)
DELETE FROM events USING old WHERE events.id = old.id
"""
_OF_ONE: Final = _PURGE.format(of_tenant="tenant_id = %(tenant)s")
_OF_NONE: Final = _PURGE.format(of_tenant="tenant_id IS NULL")


def purge_events() -> int:
    """Delete each tenant's events past its ``retention.events_days``; return how many.

    Their dispatches and attempts go with them. What no tenant has is kept as long as
    the deployment's policy says.
    """
    now = database_now()
    deleted = 0

    def purge(one: tuple[str | None, Mapping[str, Any]]) -> bool:
        nonlocal deleted
        tenant_id, policy = one
        done = _purge(tenant_id, until=now - kept_for(policy))
        deleted += done
        return done > 0

    one_by_one("feed_purge", _tenants(), purge)
    return deleted


def kept_for(policy: Mapping[str, Any]) -> timedelta:
    """Return how long events are kept under a tenant's own layer of policy."""
    effective = effective_policy(settings.PM_DEFAULT_POLICY, policy)
    return timedelta(days=effective["retention"]["events_days"])


def _tenants() -> Iterator[tuple[str | None, Mapping[str, Any]]]:
    yield None, {}
    yield from list(Tenant.objects.values_list("id", "policy"))


def _purge(tenant_id: str | None, *, until: datetime) -> int:
    statement = _OF_NONE if tenant_id is None else _OF_ONE
    parameters = {"tenant": tenant_id, "until": until, "batch": BATCH}
    return until_none(statement, parameters)
