"""Changing a tenant's policy: compare-and-set, so that no change is lost."""

from collections.abc import Mapping
from typing import Any, Final

from django.conf import settings

from core.clock import database_now
from core.errors import Unavailable
from mailboxes.callers import Caller
from mailboxes.models import Tenant
from mailboxes.policy_changes import Change, Layers, change
from mailboxes.services import NewEvent, audit, publish_of_tenant

TRIES: Final = 3


class PolicyContended(Unavailable):
    """Others changed the policy each time that this change was about to."""

    fix = "Repeat in a few seconds."


def change_policy(tenant_id: str, wanted: Mapping[str, Any], *, caller: Caller) -> None:
    """Merge a change into a tenant's own layer: all of it, or nothing.

    Joins the caller's transaction, and holds the tenant's row from here. What changes
    nothing leaves the version alone. Raises PolicyDenied, PolicyContended.
    """
    for _ in range(TRIES):
        tenant = Tenant.objects.get(id=tenant_id)
        changed = change(layers_of(tenant), wanted, by=caller.level)
        if not changed.fields:
            return
        if _store(tenant, changed):
            _tell(tenant, changed, caller)
            return
    raise PolicyContended(
        "The policy was changed by others meanwhile.",
        details={"reason": "policy_contended"},
    )


def layers_of(tenant: Tenant) -> Layers:
    """Return what the policy of a tenant is made of."""
    return Layers(settings.PM_DEFAULT_POLICY, tenant.policy, tenant.policy_ceilings)


def _store(tenant: Tenant, changed: Change) -> bool:
    as_read = Tenant.objects.filter(id=tenant.id, policy_version=tenant.policy_version)
    return bool(
        as_read.update(
            policy=changed.overrides,
            policy_ceilings=changed.ceilings,
            policy_version=tenant.policy_version + 1,
            updated_at=database_now(),
        )
    )


def _tell(tenant: Tenant, changed: Change, caller: Caller) -> None:
    """Write the audit row and the event, both with the fields and no values."""
    what = {
        "fields": list(changed.fields),
        "policy_version": tenant.policy_version + 1,
    }
    audit(
        "tenant.policy_update",
        tenant_id=tenant.id,
        target_type="tenant",
        target_id=tenant.id,
        details=what,
        actor_key_id=caller.key_id,
    )
    told = {**what, "by": str(caller.level), "actor_key_id": caller.key_id}
    event = NewEvent("tenant.policy_updated", told)
    publish_of_tenant(event, tenant_id=tenant.id, now=database_now())
