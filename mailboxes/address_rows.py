"""Writing addresses, and what goes with each change: its event, its audit row.

All of it joins the caller's transaction, which holds the mailbox row.
"""

from datetime import datetime
from typing import Any

from core.addresses import ADDRESS_LIMIT
from core.database import execute
from core.errors import AddressInvalid
from core.hashing import address_hash
from core.ids import new_id
from mailboxes.address_rules import SendingDomain
from mailboxes.errors import AddressTaken
from mailboxes.models import Address, AddressTombstone, Identity
from mailboxes.services import NewEvent, audit, publish
from mailboxes.shown import address_json
from mailboxes.statuses import AddressRole, AddressStatus, TombstoneReason


def insert_address(
    identity: Identity,
    local_part: str,
    *,
    domain: SendingDomain,
    now: datetime,
    role: AddressRole = AddressRole.ALIAS,
) -> Address:
    """Store an address that nobody has or had; raises AddressTaken.

    The tombstone is asked after the insert, which has waited for
    whoever was just deleting this address.
    """
    full = f"{local_part}@{domain.name}"
    if len(full) > ADDRESS_LIMIT:
        raise AddressInvalid(f"an address has at most {ADDRESS_LIMIT} octets")
    status = AddressStatus.ACTIVE if domain.is_ready else AddressStatus.PENDING
    address_id = new_id("adr")
    stored = execute(
        "INSERT INTO addresses (id, address, local_part, domain_id, tenant_id,"
        " identity_id, role, status, created_at)"
        " VALUES (%(id)s, %(address)s, %(local_part)s, %(domain)s, %(tenant)s,"
        " %(identity)s, %(role)s, %(status)s, %(now)s)"
        " ON CONFLICT (address) DO NOTHING",
        {
            "id": address_id,
            "address": full,
            "local_part": local_part,
            "domain": domain.id,
            "tenant": identity.tenant_id,
            "identity": identity.id,
            "role": str(role),
            "status": str(status),
            "now": now,
        },
    )
    buried = AddressTombstone.objects.filter(address_hash=address_hash(full))
    if not stored or buried.exclude(identity_id=identity.id).exists():
        raise AddressTaken(f"{full} is taken")
    return Address.objects.get(id=address_id)


def write_status(
    address: Address,
    status: AddressStatus,
    *,
    at: datetime | None = None,
    role: AddressRole = AddressRole.ALIAS,
) -> None:
    """Give an address its role and status; ``at`` is when it retires, or did."""
    address.role, address.status = role, status
    address.retire_at = at if status == AddressStatus.RETIRING else None
    address.retired_at = at if status == AddressStatus.RETIRED else None
    address.save(update_fields=["role", "status", "retire_at", "retired_at"])


def bury_addresses(identity: Identity) -> None:
    """Delete an identity's addresses, so that nobody ever has them again."""
    own = Address.objects.filter(identity=identity)
    AddressTombstone.objects.bulk_create(
        [
            AddressTombstone(
                address_hash=address_hash(address),
                identity_id=identity.id,
                reason=TombstoneReason.DELETED,
            )
            for address in own.values_list("address", flat=True)
        ],
        ignore_conflicts=True,
    )
    own.delete()


def tell(event: str, address: Address, *, now: datetime, **more: Any) -> None:
    """Publish an event of an address."""
    publish(
        [NewEvent(f"identity.{event}", {"address": address_json(address), **more})],
        tenant_id=address.tenant_id,
        identity_id=address.identity_id,
        now=now,
    )


def note(
    action: str, address: Address, actor_key_id: str | None, **details: Any
) -> None:
    """Write the audit row of a change; no key means the system."""
    audit(
        action,
        tenant_id=address.tenant_id,
        target_type="address",
        target_id=address.id,
        details={"identity_id": address.identity_id, **details},
        actor_key_id=actor_key_id,
    )
