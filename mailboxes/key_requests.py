"""Keys that a caller makes, rotates and revokes; none of them wider than its own."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction

from core.clock import database_now
from core.errors import (
    IdentityNotFound,
    InvalidRequest,
    KeyScopeExceeded,
    TenantNotFound,
)
from core.ids import is_id
from mailboxes.callers import Caller
from mailboxes.key_rules import Extent, check_within, grantable
from mailboxes.key_selectors import key_in_reach
from mailboxes.key_services import NewKey, create_key
from mailboxes.keys import draw, hash_key
from mailboxes.models import ApiKey, Identity, Tenant
from mailboxes.scopes import Scope
from mailboxes.selectors import identities_in_reach
from mailboxes.services import audit, lock_identity
from mailboxes.statuses import KeyLevel, TenantMode


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyWish:
    """The key that a caller asks for.

    An identity that is named makes it the identity's, a tenant alone the tenant's; with
    neither it reaches as far as the caller.
    """

    name: str
    permissions: Sequence[Scope]
    tenant_id: str | None = None
    identity_id: str | None = None
    expires_at: datetime | None = None

    def level(self, caller: Caller) -> KeyLevel:
        """Return how far the key would reach."""
        if self.identity_id is not None:
            return KeyLevel.IDENTITY
        return caller.level if self.tenant_id is None else KeyLevel.TENANT


def mint_key(wish: KeyWish, *, caller: Caller) -> NewKey:
    """Make the key that a caller asks for; joins its transaction.

    Raises InvalidRequest for what no key of the level may hold, then KeyScopeExceeded
    for what this caller may not give, then KeyLimitReached. A platform key that names
    nobody's id gets TenantNotFound or IdentityNotFound.
    """
    level = wish.level(caller)
    permissions = grantable(level, wish.permissions)
    if wish.expires_at is not None and wish.expires_at <= database_now():
        raise InvalidRequest.at("expires_at", "A new key ends in the future.")
    tenant, identity = _owner(wish, level, caller)
    extent = Extent(
        level,
        tenant.id if tenant else None,
        identity.id if identity else None,
        frozenset(permissions),
    )
    check_within(extent, caller=caller)
    made = create_key(
        name=wish.name,
        permissions=wish.permissions,
        tenant=tenant,
        identity=identity,
        expires_at=wish.expires_at,
        created_by_key_id=caller.key_id or None,
    )
    _audit("key.create", made.key, caller, level=str(level), permissions=permissions)
    return made


def rotate_secret(key_id: str, *, overlap_hours: int, caller: Caller) -> NewKey:
    """Give a key a new secret; the one before counts for so many hours more.

    The id and the lookup stay. At most two secrets count; with no overlap, one. Joins
    the caller's transaction. Raises KeyNotFound, KeyScopeExceeded, or InvalidRequest
    for a key that has ended.
    """
    key = key_in_reach(key_id, caller=caller, lock=True)
    now = database_now()
    _check_alive(key, now=now)
    drawn = draw(TenantMode(key.mode), lookup=key.lookup)
    key.prev_hash = key.hash if overlap_hours else None
    key.prev_expires_at = (
        now + timedelta(hours=overlap_hours) if overlap_hours else None
    )
    key.hash = hash_key(settings.PM_KEY_PEPPER, drawn.text)
    key.save(update_fields=["hash", "prev_hash", "prev_expires_at"])
    _audit("key.rotate", key, caller, overlap_hours=overlap_hours)
    return NewKey(key, drawn.text)


@transaction.atomic(durable=True)
def revoke_key(key_id: str, *, caller: Caller) -> None:
    """End a key at once, both of its secrets; those it made live on.

    Revoking twice changes nothing. Raises KeyNotFound or KeyScopeExceeded.
    """
    key = key_in_reach(key_id, caller=caller)
    revoked = ApiKey.objects.filter(id=key.id, revoked_at=None).update(
        revoked_at=database_now(), prev_hash=None, prev_expires_at=None
    )
    if revoked:
        _audit("key.revoke", key, caller)


def _owner(
    wish: KeyWish, level: KeyLevel, caller: Caller
) -> tuple[Tenant | None, Identity | None]:
    """Return whose key it would be; what is out of reach is not there."""
    tenant_id = wish.tenant_id or caller.tenant_id
    identity_id = wish.identity_id or caller.identity_id
    if level == KeyLevel.IDENTITY:
        identity = _identity(str(identity_id), tenant_id, caller)
        return identity.tenant, identity
    return (None if tenant_id is None else _tenant(tenant_id, caller)), None


def _identity(identity_id: str, tenant_id: str | None, caller: Caller) -> Identity:
    """Return an identity whose mailbox is locked, so that its end waits for the key.

    A deletion revokes the keys that it finds; one that is made meanwhile would go on.
    """
    found = identities_in_reach(caller).filter(id=identity_id)
    if tenant_id is not None:
        found = found.filter(tenant_id=tenant_id)
    try:
        if is_id(identity_id, "idn") and found.exists():
            return lock_identity(identity_id)
        raise IdentityNotFound("No such identity.")
    except IdentityNotFound:
        if caller.tenant_id is None:
            raise
        raise KeyScopeExceeded from None


def _tenant(tenant_id: str, caller: Caller) -> Tenant:
    if caller.tenant_id not in (None, tenant_id):
        raise KeyScopeExceeded
    tenant = (
        Tenant.objects.filter(id=tenant_id).first() if is_id(tenant_id, "ten") else None
    )
    if tenant is None:
        raise TenantNotFound("No such tenant.")
    return tenant


def _check_alive(key: ApiKey, *, now: datetime) -> None:
    has_expired = key.expires_at is not None and key.expires_at <= now
    if key.revoked_at is not None or has_expired:
        raise InvalidRequest(
            "This key has ended; make another one.",
            details={"reason": "key_expired" if has_expired else "key_revoked"},
        )


def _audit(action: str, key: ApiKey, caller: Caller, **details: object) -> None:
    audit(
        action,
        tenant_id=key.tenant_id,
        target_type="key",
        target_id=key.id,
        details=details,
        actor_key_id=caller.key_id or None,
    )
