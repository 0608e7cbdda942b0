"""Makes or finds what a first send needs: a tenant, an identity, its addresses.

All of it joins the caller's transaction. Whoever runs it twice finds what the first
run made.
"""

from collections.abc import Mapping

from core.errors import PylotaError
from mailboxes.address_rules import KEPT_DAYS, SendingDomain
from mailboxes.address_services import add_address, promote_address
from mailboxes.address_sweeps import activate_addresses
from mailboxes.identity_rules import NewIdentity
from mailboxes.identity_services import create_identity
from mailboxes.models import Address, Identity, Tenant
from mailboxes.services import hold_names
from mailboxes.statuses import IdentityStatus, TenantMode
from mailboxes.tenant_services import NewTenant, SlugTaken, make_tenant


class ModeFixed(PylotaError):
    """A tenant's mode is chosen when it is made, and stays."""

    code = "invalid_request"
    status = 400
    fix = "Use the mode that the tenant has, or another name."


def ensure_tenant(slug: str, *, mode: TenantMode) -> Tenant:
    """Return the tenant of this name, made if there is none; addresses end in .slug.

    Raises ModeFixed if it exists in the other mode, and the refusals of ``make_tenant``
    but SlugTaken: whoever has the slug is the tenant.
    """
    tenant = Tenant.objects.filter(slug=slug).first()
    if tenant is None:
        try:
            tenant = make_tenant(NewTenant(slug=slug, name=slug, mode=mode))
        except SlugTaken:
            tenant = Tenant.objects.get(slug=slug)  # made in this very moment
    if tenant.mode != mode:
        raise ModeFixed(f"tenant {slug} exists, and its mode is {tenant.mode}")
    return tenant


def ensure_identity(
    tenant: Tenant,
    username: str,
    *,
    owner: Mapping[str, str],
    platform: SendingDomain,
) -> Identity:
    """Return the tenant's identity of this name, made if there is none.

    A new one has an owner (``name`` and ``email``), so that it may send, its one-writer
    row and its address on the platform's domain. Raises the refusals of
    ``create_identity``.
    """
    hold_names(tenant.id)
    name = username.lower()
    live = Identity.objects.filter(tenant=tenant).exclude(status=IdentityStatus.DELETED)
    if (found := live.filter(username=name).first()) is not None:
        return found
    shown = name.replace(".", " ").replace("_", " ").title()
    wanted = NewIdentity(username, {"display_name": shown, "owner": owner})
    return create_identity(tenant, wanted, platform=platform)


def ensure_primary_address(
    identity: Identity, *, domain: SendingDomain, platform: SendingDomain
) -> Address:
    """Return the identity's address on its own domain, primary once that is ready.

    Until then it is pending. Raises the refusals of ``add_address`` and
    ``promote_address``.
    """
    own = Address.objects.filter(identity=identity, domain_id=domain.id)
    address = own.filter(local_part=identity.username).first() or add_address(
        identity.id, identity.username, domain=domain
    )
    if not domain.is_ready:
        return address
    activate_addresses(domain)
    return promote_address(
        address, domain=domain, platform_id=platform.id, after_days=KEPT_DAYS
    )
