"""Making API keys. The secret is returned once and never stored."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import Q

from core.clock import database_now
from core.errors import KeyLimitReached
from core.ids import new_id
from mailboxes.key_rules import grantable
from mailboxes.keys import ParsedKey, draw, hash_key
from mailboxes.models import ApiKey, Identity, Tenant
from mailboxes.scopes import Scope, allowed_at
from mailboxes.statuses import KeyLevel, TenantMode

REDRAWS: Final = 3
MOST_LIVE_KEYS: Final = 100
"""Keys of a tenant that are neither revoked nor expired (REST contract, section 7)."""


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key that was just made, and its secret: the only time it is seen."""

    key: ApiKey
    secret: str = field(repr=False)


@transaction.atomic
def create_key(
    *,
    name: str,
    permissions: Iterable[Scope] | None = None,
    tenant: Tenant | None = None,
    identity: Identity | None = None,
    expires_at: datetime | None = None,
    created_by_key_id: str | None = None,
) -> NewKey:
    """Make a key as wide as its owner: an identity's, a tenant's, or the platform's.

    Without ``permissions`` it holds every scope of its level. Joins the caller's
    transaction, if there is one. Raises InvalidRequest when a scope is above the level,
    or the list is empty (REST contract, section 1.1); KeyLimitReached.
    """
    owner = identity.tenant if identity is not None else tenant
    level = _level(owner, identity)
    granted = grantable(
        level, allowed_at(level) if permissions is None else permissions
    )
    mode = TenantMode(owner.mode) if owner is not None else TenantMode.LIVE
    row = ApiKey(
        id=new_id("key"),
        name=name,
        level=level,
        tenant=owner,
        identity=identity,
        mode=mode,
        permissions=granted,
        expires_at=expires_at,
        created_by_key_id=created_by_key_id,
    )
    if owner is not None:
        _take_place(owner.id)
    return NewKey(row, _insert(row, mode).text)


def _level(tenant: Tenant | None, identity: Identity | None) -> KeyLevel:
    if identity is not None:
        return KeyLevel.IDENTITY
    return KeyLevel.TENANT if tenant is not None else KeyLevel.PLATFORM


def _take_place(tenant_id: str) -> None:
    """Let one transaction at a time add a key to a tenant that has room for it."""
    Tenant.objects.select_for_update(no_key=True).get(id=tenant_id)
    alive = Q(expires_at=None) | Q(expires_at__gt=database_now())
    found = ApiKey.objects.filter(alive, tenant_id=tenant_id, revoked_at=None)
    if found.count() >= MOST_LIVE_KEYS:
        raise KeyLimitReached(
            f"The tenant has {MOST_LIVE_KEYS} live keys, the most it may have.",
            details={"limit": MOST_LIVE_KEYS},
        )


def _insert(row: ApiKey, mode: TenantMode) -> ParsedKey:
    """Store the row under a lookup that nobody has; 60 bits rarely collide."""
    for attempt in range(REDRAWS):
        drawn = draw(mode)
        row.lookup = drawn.lookup
        row.hash = hash_key(settings.PM_KEY_PEPPER, drawn.text)
        try:
            with transaction.atomic():
                row.save(force_insert=True)
        except IntegrityError:
            if attempt + 1 == REDRAWS:
                raise
        else:
            return drawn
    raise AssertionError("unreachable: the last attempt returns or raises")
