"""Reading keys and identities, with the reach of a key as a filter."""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db.models import QuerySet

from core import clock
from core.database import fetch_one
from core.errors import IdentityNotFound, TenantNotFound
from core.hashing import address_hash
from core.ids import is_id
from mailboxes.callers import Caller
from mailboxes.errors import AddressNotFound
from mailboxes.keys import NOBODY
from mailboxes.models import (
    Address,
    AddressTombstone,
    Alert,
    ApiKey,
    Identity,
    Tenant,
)
from mailboxes.scopes import effective
from mailboxes.statuses import IdentityStatus, KeyLevel, TenantMode

_KEY_BY_LOOKUP: Final = """
SELECT COALESCE(k.id, ''), COALESCE(k.name, ''), COALESCE(k.level, ''),
       COALESCE(k.mode, ''), k.tenant_id, k.identity_id,
       COALESCE(k.permissions, '[]'::jsonb), COALESCE(k.hash, %(nobody)s),
       CASE WHEN k.prev_expires_at > clock.now THEN k.prev_hash ELSE %(nobody)s END,
       k.revoked_at IS NOT NULL, COALESCE(k.expires_at <= clock.now, FALSE),
       COALESCE(k.last_used_at <= clock.now - interval '1 minute', TRUE), t.status
  FROM (SELECT clock_timestamp() + %(offset)s AS now) AS clock
  LEFT JOIN api_keys k ON k.lookup = %(lookup)s
  LEFT JOIN tenants t ON t.id = k.tenant_id
"""
"""One row, whether the key is there or not: reading one takes time as well."""


@dataclass(frozen=True, slots=True)
class StoredKey:
    """A row of ``api_keys`` and its tenant's status, judged by the database's clock.

    Nothing is made of it before the secret is proved, and a key that is not there looks
    like one: so a wrong secret takes as long as an unknown key.
    """

    key_id: str
    name: str
    level: str
    mode: str
    tenant_id: str | None
    identity_id: str | None
    permissions: str
    hash: str
    previous_hash: str
    is_revoked: bool
    has_expired: bool
    is_use_due: bool
    tenant_status: str | None

    @property
    def exists(self) -> bool:
        """Tell whether this is a key, not what stands for one that is not there."""
        return self.key_id != ""

    def caller(self) -> Caller:
        """Return who calls with this key."""
        level = KeyLevel(self.level)
        return Caller(
            key_id=self.key_id,
            name=self.name,
            level=level,
            mode=TenantMode(self.mode),
            tenant_id=self.tenant_id,
            identity_id=self.identity_id,
            scopes=effective(level, json.loads(self.permissions)),
        )


def key_by_lookup(lookup: str) -> StoredKey:
    """Return the key of this lookup, read now: a revocation counts at once."""
    parameters = {"lookup": lookup, "nobody": NOBODY, "offset": clock.offset}
    row = fetch_one(_KEY_BY_LOOKUP, parameters)
    assert row is not None  # noqa: S101  the statement gives one row, always
    return StoredKey(*row)


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


def identity_of_tenant(identity_id: str, *, tenant_id: str) -> Identity:
    """Return an identity of a tenant; raises IdentityNotFound alike for any other."""
    found = None
    if is_id(identity_id, "idn"):
        found = Identity.objects.filter(id=identity_id, tenant_id=tenant_id).first()
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


def live_identity_in_reach(identity_id: str, *, caller: Caller) -> Identity:
    """Return an identity that may be written to; one being deleted is not there."""
    identity = identity_in_reach(identity_id, caller=caller)
    if identity.status in (IdentityStatus.DELETING, IdentityStatus.DELETED):
        raise IdentityNotFound("No such identity.")
    return identity


def address_in_reach(address_id: str, *, identity: Identity) -> Address:
    """Return an address of an identity; raises AddressNotFound alike for any other."""
    found = None
    if is_id(address_id, "adr"):
        found = Address.objects.filter(id=address_id, identity=identity).first()
    if found is None:
        raise AddressNotFound("No such address.")
    return found


def identity_behind(address: str) -> str | None:
    """Return whose a normalised address is, or was before its identity was deleted."""
    living = Address.objects.filter(address=address).values_list(
        "identity_id", flat=True
    )
    if (found := living.first()) is not None:
        return found
    buried = AddressTombstone.objects.filter(address_hash=address_hash(address))
    return buried.values_list("identity_id", flat=True).first()


def has_alerted_since(name: str, *, since: datetime) -> bool:
    """Tell whether an alert that is still open was raised after an instant."""
    open_ones = Alert.objects.filter(name=name, resolved_at__isnull=True)
    return open_ones.filter(last_at__gt=since).exists()
