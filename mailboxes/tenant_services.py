"""Making, changing and stopping tenants (mailboxes, section 2.1).

All of it joins the caller's transaction, if there is one. Locks: every mailbox of the
tenant, the quota account, the tenant's row.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Final

from django.db import IntegrityError, transaction

from core.clock import database_now
from core.database import fetch_all
from core.errors import InvalidRequest, PylotaError
from core.ids import new_id
from mailboxes.models import Tenant
from mailboxes.services import NewEvent, audit, lock_mailboxes, publish_to_each
from mailboxes.statuses import PauseReason, TenantMode, TenantStatus
from mailboxes.usernames import fold

SLUG: Final = r"^[a-z0-9][a-z0-9-]{1,31}$"
SUFFIX: Final = r"^(\.[a-z0-9][a-z0-9-]{1,31})?$"


class _Taken(PylotaError):
    status: ClassVar[int] = 409
    fix = "Choose another value."


class SlugTaken(_Taken):
    """Another tenant has this slug."""

    code = "slug_taken"


class SuffixTaken(_Taken):
    """Another tenant's addresses would look the same."""

    code = "suffix_taken"


@dataclass(frozen=True, slots=True)
class NewTenant:
    """What a tenant is made of; the suffix of its addresses is the slug's, by default.

    ``timezone`` is an IANA name that the caller has checked.
    """

    slug: str
    name: str
    mode: TenantMode
    suffix: str | None = None
    timezone: str = "UTC"

    @property
    def address_suffix(self) -> str:
        """Return what stands between user name and ``@``; one tenant has nothing."""
        return f".{self.slug}" if self.suffix is None else self.suffix


@transaction.atomic
def make_tenant(new: NewTenant, *, actor_key_id: str | None = None) -> Tenant:
    """Make a tenant; its quota account is the caller's to open.

    Raises InvalidRequest, SlugTaken, SuffixTaken.
    """
    if not re.fullmatch(SLUG, new.slug):
        message = "A slug is 2 to 32 of a-z 0-9 -, and does not begin with a dash."
        raise InvalidRequest.at("slug", message)
    if not re.fullmatch(SUFFIX, new.address_suffix):
        raise InvalidRequest.at("address_suffix", "A suffix is empty, or . and a slug.")
    tenant = _insert(new)
    audit(
        "tenant.create",
        tenant_id=tenant.id,
        target_type="tenant",
        target_id=tenant.id,
        details={"slug": tenant.slug, "mode": str(tenant.mode)},
        actor_key_id=actor_key_id,
    )
    return tenant


def _insert(new: NewTenant) -> Tenant:
    try:
        with transaction.atomic():
            return Tenant.objects.create(
                id=new_id("ten"),
                slug=new.slug,
                name=new.name,
                mode=new.mode,
                address_suffix=new.address_suffix,
                suffix_fold=fold(new.address_suffix),
                timezone=new.timezone,
            )
    except IntegrityError:
        if Tenant.objects.filter(slug=new.slug).exists():
            raise SlugTaken(f"Another tenant has the slug {new.slug}.") from None
        raise SuffixTaken(
            f"The suffix {new.address_suffix!r} is, or looks like, another tenant's."
        ) from None


def rename_tenant(tenant_id: str, name: str) -> bool:
    """Give a tenant another name; tell whether it had another one."""
    renamed = Tenant.objects.filter(id=tenant_id).exclude(name=name)
    return bool(renamed.update(name=name, updated_at=database_now()))


@transaction.atomic
def suspend_tenant(tenant_id: str, *, actor_key_id: str | None = None) -> int:
    """Suspend a tenant and pause every active identity of it; return how many.

    Suspending twice changes nothing. No send is accepted once this has committed.
    """
    mailboxes, now = lock_mailboxes(tenant_id), database_now()
    suspended = Tenant.objects.filter(id=tenant_id, status=TenantStatus.ACTIVE).update(
        status=TenantStatus.SUSPENDED, suspended_at=now, updated_at=now
    )
    if not suspended:
        return 0
    paused = _pause(mailboxes, now=now)
    data = {"reason": str(PauseReason.TENANT_SUSPENDED)}
    _tell("identity.paused", paused, data, tenant_id=tenant_id, now=now)
    _note("tenant.suspend", tenant_id, "identities_paused", paused, actor_key_id)
    return len(paused)


@transaction.atomic
def resume_tenant(tenant_id: str, *, actor_key_id: str | None = None) -> int:
    """Let a suspended tenant send again; return how many identities go on with it.

    Only what the suspension paused: an identity paused for another reason stays so.
    """
    mailboxes, now = lock_mailboxes(tenant_id), database_now()
    suspended = Tenant.objects.filter(id=tenant_id, status=TenantStatus.SUSPENDED)
    if not suspended.update(
        status=TenantStatus.ACTIVE, suspended_at=None, updated_at=now
    ):
        return 0
    going_on = _resume(mailboxes, now=now)
    _tell("identity.resumed", going_on, {}, tenant_id=tenant_id, now=now)
    _note("tenant.resume", tenant_id, "identities_resumed", going_on, actor_key_id)
    return len(going_on)


def _pause(mailboxes: Sequence[str], *, now: datetime) -> list[str]:
    """Pause what is active of these, and of these alone: their rows are locked."""
    rows = fetch_all(
        "UPDATE identities SET status = 'paused', pause_reason = 'tenant_suspended',"
        " updated_at = %(now)s WHERE id = ANY(%(mailboxes)s) AND status = 'active'"
        " RETURNING id",
        {"mailboxes": mailboxes, "now": now},
    )
    return [identity_id for (identity_id,) in rows]


def _resume(mailboxes: Sequence[str], *, now: datetime) -> list[str]:
    rows = fetch_all(
        "UPDATE identities SET status = 'active', pause_reason = NULL,"
        " updated_at = %(now)s WHERE id = ANY(%(mailboxes)s) AND status = 'paused'"
        " AND pause_reason = 'tenant_suspended' RETURNING id",
        {"mailboxes": mailboxes, "now": now},
    )
    return [identity_id for (identity_id,) in rows]


def _tell(
    event: str,
    identities: Sequence[str],
    data: Mapping[str, str],
    *,
    tenant_id: str,
    now: datetime,
) -> None:
    events = {
        identity_id: NewEvent(event, {"identity_id": identity_id, **data})
        for identity_id in identities
    }
    publish_to_each(events, tenant_id=tenant_id, now=now)


def _note(
    action: str,
    tenant_id: str,
    what: str,
    identities: Sequence[str],
    actor_key_id: str | None,
) -> None:
    audit(
        action,
        tenant_id=tenant_id,
        target_type="tenant",
        target_id=tenant_id,
        details={what: len(identities)},
        actor_key_id=actor_key_id,
    )
