"""A tenant as JSON, and a change of it: what mailboxes and quota do together."""

from datetime import datetime
from typing import Any, Final

from mailboxes.api.tenant_schemas import TenantPatch
from mailboxes.callers import Caller
from mailboxes.models import Tenant
from mailboxes.policy import effective_policy
from mailboxes.policy_services import change_policy, layers_of
from mailboxes.services import audit, lock_mailboxes, render_instant
from mailboxes.tenant_services import rename_tenant, resume_tenant, suspend_tenant
from quota.days import TenantDays
from quota.services import change_timezone

STATUS: Final = {"suspended": suspend_tenant, "active": resume_tenant}


def change_tenant(tenant: Tenant, form: TenantPatch, *, caller: Caller) -> None:
    """Do all that a change asks for; joins the caller's transaction.

    Whatever it names, the order of locks is one: mailboxes, quota account, the tenant's
    row. Raises PolicyDenied, PolicyContended.
    """
    given = form.given()
    if "status" in given:
        lock_mailboxes(tenant.id)
    changed = []
    if "timezone" in given and _change_zone(tenant, form.timezone):
        changed.append("timezone")
    if "name" in given and rename_tenant(tenant.id, form.name):
        changed.append("name")
    if changed:
        _note(tenant.id, changed, caller)
    if "status" in given:
        STATUS[form.status](tenant.id, actor_key_id=caller.key_id)
    if "policy" in given:
        wanted = form.policy.model_dump(exclude_unset=True)
        change_policy(tenant.id, wanted, caller=caller)


def _change_zone(tenant: Tenant, wanted: str) -> bool:
    before = TenantDays.of_row(tenant.timezone, tenant.tz_next)
    return change_timezone(tenant.id, wanted) != before


def _note(tenant_id: str, fields: list[str], caller: Caller) -> None:
    audit(
        "tenant.update",
        tenant_id=tenant_id,
        target_type="tenant",
        target_id=tenant_id,
        details={"fields": fields},
        actor_key_id=caller.key_id,
    )


def tenant_json(tenant: Tenant, *, now: datetime) -> dict[str, Any]:
    """Return a tenant as the API shows it (REST contract, section 2.1)."""
    days, layers = TenantDays.of_row(tenant.timezone, tenant.tz_next), layers_of(tenant)
    return {
        "id": tenant.id,
        "slug": tenant.slug,
        "name": tenant.name,
        "mode": tenant.mode,
        "status": tenant.status,
        "address_suffix": tenant.address_suffix,
        "timezone": days.zone_name(now),
        "next_timezone": _next_zone(days, now),
        "policy": effective_policy(layers.deployment, layers.overrides),
        "created_at": render_instant(tenant.created_at),
        "updated_at": render_instant(tenant.updated_at),
    }


def _next_zone(days: TenantDays, now: datetime) -> dict[str, str] | None:
    if days.next_timezone is None or days.next_from is None or now >= days.next_from:
        return None
    return {"timezone": days.next_timezone, "at": render_instant(days.next_from)}
