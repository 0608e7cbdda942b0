"""Making API keys. The secret is returned once and never stored."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from django.conf import settings
from django.db import IntegrityError, transaction

from core.errors import InvalidRequest
from core.ids import new_id
from mailboxes.keys import ParsedKey, draw, hash_key
from mailboxes.models import ApiKey, Identity, Tenant
from mailboxes.scopes import Scope, allowed_at
from mailboxes.statuses import KeyLevel, TenantMode

REDRAWS: Final = 3


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key that was just made, and its secret: the only time it is seen."""

    key: ApiKey
    secret: str = field(repr=False)


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
    transaction. Raises InvalidRequest when a scope is above the level, or the list is
    empty (REST contract, section 1.1).
    """
    owner = identity.tenant if identity is not None else tenant
    level = _level(owner, identity)
    granted = _granted(level, permissions)
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
    return NewKey(row, _insert(row, mode).text)


def _level(tenant: Tenant | None, identity: Identity | None) -> KeyLevel:
    if identity is not None:
        return KeyLevel.IDENTITY
    return KeyLevel.TENANT if tenant is not None else KeyLevel.PLATFORM


def _granted(level: KeyLevel, permissions: Iterable[Scope] | None) -> list[str]:
    allowed = allowed_at(level)
    wanted = allowed if permissions is None else frozenset(permissions)
    if not wanted:
        raise InvalidRequest.at("permissions", "Name at least one permission.")
    if above := sorted(str(scope) for scope in wanted - allowed):
        raise InvalidRequest(
            f"A key of level {level} cannot hold {', '.join(above)}.",
            details={"reason": "permission_not_allowed_for_level"},
        )
    return sorted(str(scope) for scope in wanted)


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
