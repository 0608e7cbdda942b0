"""Makes or finds what a first send needs: a tenant, an identity, its addresses.

All of it joins the caller's transaction. Whoever runs it twice finds what the first
run made.
"""

from typing import ClassVar

from core.clock import database_now
from core.errors import PylotaError
from core.ids import new_id
from mailboxes.models import Address, Identity, Mailbox, Tenant
from mailboxes.statuses import (
    AddressRole,
    AddressStatus,
    IdentityStatus,
    TenantMode,
)
from mailboxes.tenant_services import NewTenant, SlugTaken, make_tenant
from mailboxes.usernames import check_username, fold


class ModeFixed(PylotaError):
    """A tenant's mode is chosen when it is made, and stays."""

    code = "invalid_request"
    status = 400


class _Taken(PylotaError):
    status: ClassVar[int] = 409
    fix = "Choose another value."


class UsernameTaken(_Taken):
    """Another identity of the tenant has a name that looks the same."""

    code = "username_taken"


class AddressTaken(_Taken):
    """Somebody has, or had, this address."""

    code = "address_taken"


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
    tenant: Tenant, username: str, *, owner_name: str, owner_email: str
) -> Identity:
    """Return the tenant's identity of this name, made if there is none.

    A new one has an owner, so that it may send, and its one-writer row. Raises the
    refusals of ``check_username`` and UsernameTaken.
    """
    name = check_username(username, suffix=tenant.address_suffix)
    live = Identity.objects.filter(tenant=tenant).exclude(status=IdentityStatus.DELETED)
    found = live.filter(username=name).first()
    if found is not None:
        return found
    if fold(name) in {fold(other) for other in live.values_list("username", flat=True)}:
        raise UsernameTaken(f"{name} looks like the name of another identity")
    identity = Identity.objects.create(
        id=new_id("idn"),
        tenant=tenant,
        username=name,
        display_name=name.replace(".", " ").replace("_", " ").title(),
        owner_name=owner_name,
        owner_email=owner_email,
    )
    Mailbox.objects.create(identity=identity, tenant=tenant)
    return identity


def ensure_platform_address(
    identity: Identity, *, domain_id: str, name: str
) -> Address:
    """Return the identity's one address on the platform's domain, for life.

    ``name`` is the domain's. It is primary as long as no other address is. Raises
    AddressTaken if the address was somebody else's.
    """
    local_part = identity.username + identity.tenant.address_suffix
    return _ensure_address(identity, local_part, domain_id=domain_id, name=name)


def ensure_primary_address(
    identity: Identity, *, domain_id: str, name: str, is_ready: bool
) -> Address:
    """Return the identity's address on its own domain, primary once that is ready.

    The address that was primary goes on as an alias. Until the domain is ready the
    address is a pending alias. Raises AddressTaken.
    """
    address = _ensure_address(
        identity, identity.username, domain_id=domain_id, name=name, is_ready=is_ready
    )
    if is_ready and address.role != AddressRole.PRIMARY:
        Address.objects.filter(identity=identity, role=AddressRole.PRIMARY).update(
            role=AddressRole.ALIAS
        )
        Address.objects.filter(id=address.id).update(
            role=AddressRole.PRIMARY, status=AddressStatus.ACTIVE
        )
        address.refresh_from_db()
    return address


def _ensure_address(
    identity: Identity,
    local_part: str,
    *,
    domain_id: str,
    name: str,
    is_ready: bool = True,
) -> Address:
    full = f"{local_part}@{name}"
    found = Address.objects.filter(address=full).first()
    if found is not None:
        if found.identity_id != identity.id or found.status == AddressStatus.RETIRED:
            raise AddressTaken(f"{full} is taken")
        return found
    has_primary = Address.objects.filter(
        identity=identity, role=AddressRole.PRIMARY
    ).exists()
    return Address.objects.create(
        id=new_id("adr"),
        address=full,
        local_part=local_part,
        domain_id=domain_id,
        tenant_id=identity.tenant_id,
        identity=identity,
        role=AddressRole.ALIAS if has_primary else AddressRole.PRIMARY,
        status=AddressStatus.ACTIVE if is_ready else AddressStatus.PENDING,
        created_at=database_now(),
    )
