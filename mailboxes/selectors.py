"""Reading keys and identities, with the reach of a key as a filter."""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db.models import QuerySet

from core import clock
from core.database import fetch_one
from core.errors import IdentityNotFound, TenantNotFound
from core.ids import is_id
from mailboxes.callers import Caller
from mailboxes.keys import StoredHashes
from mailboxes.models import ApiKey, Identity, Tenant
from mailboxes.scopes import effective
from mailboxes.statuses import KeyLevel, TenantMode

_KEY_BY_LOOKUP: Final = """
SELECT k.id, k.name, k.level, k.mode, k.tenant_id, k.identity_id, k.permissions,
       k.hash, k.prev_hash, k.prev_expires_at, k.expires_at, k.revoked_at,
       k.last_used_at, t.status, clock_timestamp()
  FROM api_keys k
  LEFT JOIN tenants t ON t.id = k.tenant_id
 WHERE k.lookup = %(lookup)s
"""


@dataclass(frozen=True, slots=True)
class StoredKey:
    """A row of ``api_keys`` and its tenant's status, as of one instant."""

    caller: Caller
    hashes: StoredHashes
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    tenant_status: str | None
    read_at: datetime


def key_by_lookup(lookup: str) -> StoredKey | None:
    """Return the key of this lookup, read now: a revocation counts at once."""
    row = fetch_one(_KEY_BY_LOOKUP, {"lookup": lookup})
    if row is None:
        return None
    key_id, name, level, mode, tenant_id, identity_id, permissions, *rest = row
    current, previous, previous_until, expires, revoked, used, status, now = rest
    caller = Caller(
        key_id=key_id,
        name=name,
        level=KeyLevel(level),
        mode=TenantMode(mode),
        tenant_id=tenant_id,
        identity_id=identity_id,
        scopes=effective(KeyLevel(level), json.loads(permissions)),
    )
    return StoredKey(
        caller=caller,
        hashes=StoredHashes(current, previous, previous_until),
        expires_at=expires,
        revoked_at=revoked,
        last_used_at=used,
        tenant_status=status,
        read_at=now + clock.offset,
    )


def key_of(caller: Caller) -> ApiKey:
    """Return the row of the calling key."""
    return ApiKey.objects.get(id=caller.key_id)


def identities_in_reach(caller: Caller) -> QuerySet[Identity]:
    """Return the identities that a key may know of; everything else is not there."""
    found = Identity.objects.all()
    if caller.tenant_id is not None:
        found = found.filter(tenant_id=caller.tenant_id)
    if caller.identity_id is not None:
        found = found.filter(id=caller.identity_id)
    return found


def identity_in_reach(identity_id: str, *, caller: Caller) -> Identity:
    """Return one identity; raises IdentityNotFound alike for missing and foreign."""
    found = None
    if is_id(identity_id, "idn"):
        found = identities_in_reach(caller).filter(id=identity_id).first()
    if found is None:
        raise IdentityNotFound("No such identity.")
    return found


def tenant_in_reach(tenant_id: str, *, caller: Caller) -> Tenant:
    """Return one tenant; raises TenantNotFound alike for missing and foreign."""
    found = None
    if is_id(tenant_id, "ten") and caller.tenant_id in (None, tenant_id):
        found = Tenant.objects.filter(id=tenant_id).first()
    if found is None:
        raise TenantNotFound("No such tenant.")
    return found
