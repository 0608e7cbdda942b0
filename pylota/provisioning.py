"""Everything that a first send needs, made or found in one transaction."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from django.conf import settings
from django.db import transaction

from core.clock import database_now
from domains.models import Domain
from domains.relay import RelaySettings
from domains.selectors import seen_by_addresses, tenant_domain
from domains.services import ensure_platform_domain, ensure_relay_domain
from mailboxes.address_rules import SendingDomain
from mailboxes.key_services import create_key
from mailboxes.models import Address, Identity
from mailboxes.provisioning import (
    ensure_identity,
    ensure_primary_address,
    ensure_tenant,
)
from mailboxes.statuses import TenantMode
from quota.counts import count_unlimited
from quota.provisioning import open_account

OWNER_NAME: Final = "The operator"
PLATFORM_KEY_LIFE: Final = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class Provisioned:
    """What ``manage.py provision --json`` prints; the key is a new one each time."""

    tenant_id: str
    identity_id: str
    address: str
    domain_id: str
    api_key: str = field(repr=False)
    base_url: str


@dataclass(frozen=True, slots=True)
class RelayDomain:
    """A domain to send from, and its relay; None keeps the relay it has."""

    name: str
    relay: RelaySettings | None


@transaction.atomic(durable=True)
def provision(
    *, tenant: str, mode: TenantMode, username: str, own_domain: RelayDomain | None
) -> Provisioned:
    """Make or find a tenant, an identity that can send, its address, and a new key.

    With a domain, the identity's primary address is on it; it is taken as proved in
    the local environment only. Both count on the tenant's plan, which limits nobody
    here. Raises the refusals of each part.
    """
    domain = ensure_platform_domain()
    platform = seen_by_addresses(domain)
    owner = ensure_tenant(tenant, mode=mode)
    open_account(owner.id, is_own=True)
    identity = ensure_identity(
        owner,
        username,
        owner={
            "name": OWNER_NAME,
            "email": f"postmaster@{settings.PM_PLATFORM_DOMAIN}",
        },
        platform=platform,
    )
    address = identity.addresses.get(domain=domain)
    if own_domain is not None:
        domain, address = _own_domain(identity, own_domain, platform)
    made = create_key(name=f"provision {identity.username}", tenant=owner)
    count_unlimited(owner.id)
    return Provisioned(
        tenant_id=owner.id,
        identity_id=identity.id,
        address=address.address,
        domain_id=domain.id,
        api_key=made.secret,
        base_url=base_url(),
    )


def _own_domain(
    identity: Identity, wanted: RelayDomain, platform: SendingDomain
) -> tuple[Domain, Address]:
    domain = ensure_relay_domain(
        identity.tenant_id, wanted.name, wanted.relay, proved=settings.LOCAL
    )
    seen = tenant_domain(domain.id, tenant_id=identity.tenant_id)
    return domain, ensure_primary_address(identity, domain=seen, platform=platform)


@transaction.atomic(durable=True)
def provision_platform_key() -> str:
    """Return a new platform key with every scope, which ends after 24 h."""
    ends_at = database_now() + PLATFORM_KEY_LIFE
    return create_key(name="first platform key", expires_at=ends_at).secret


def base_url() -> str:
    """Return where this deployment answers."""
    if settings.LOCAL:
        host = settings.PM_API_HOST
        return f"http://{host}" if ":" in host else f"http://{host}:8000"
    return f"https://{settings.PM_API_HOST}"
