"""What a caller does with addresses: add, promote, retire, delete.

Every change is made under the mailbox row of the address's identity, in one transaction
with its event and its audit row (mailboxes, section 2.4).
"""

from datetime import datetime, timedelta

from core.clock import database_now
from mailboxes.address_rows import insert_address, note, tell, write_status
from mailboxes.address_rules import (
    MOST_ADDRESSES,
    SendingDomain,
    Standing,
    check_deletion,
    check_promotion,
    check_retirement,
    ends_as,
    previous_becomes,
)
from mailboxes.errors import AddressLimitReached, AddressNotFound
from mailboxes.models import Address
from mailboxes.services import lock_identity
from mailboxes.shown import address_json
from mailboxes.statuses import AddressRole, AddressStatus
from mailboxes.usernames import check_local_part


def add_address(
    identity_id: str,
    local_part: str,
    *,
    domain: SendingDomain,
    actor_key_id: str | None = None,
) -> Address:
    """Give an identity an address on its tenant's domain, pending until that is ready.

    An older pending one on the domain makes room. Joins the caller's transaction, which
    keeps the domain as it is. Raises the refusals of ``check_local_part`` and
    ``insert_address``, AddressLimitReached and IdentityNotFound.
    """
    name = check_local_part(local_part)
    identity = lock_identity(identity_id)
    now = database_now()
    own = Address.objects.filter(identity=identity)
    own.filter(domain_id=domain.id, status=AddressStatus.PENDING).delete()
    if own.exclude(status=AddressStatus.RETIRED).count() >= MOST_ADDRESSES:
        raise AddressLimitReached(
            f"An identity has at most {MOST_ADDRESSES} addresses.",
            details={"limit": MOST_ADDRESSES},
        )
    address = insert_address(identity, name, domain=domain, now=now)
    tell("address_added", address, now=now)
    note("address.add", address, actor_key_id, status=str(address.status))
    return address


def promote_address(
    address: Address,
    *,
    domain: SendingDomain,
    platform_id: str,
    after_days: int,
    actor_key_id: str | None = None,
) -> Address:
    """Make an address the primary one; the one before goes on as an alias, or retires.

    ``domain`` is the address's own, ``platform_id`` the platform's. Joins the caller's
    transaction. Promoting the primary address changes nothing. Raises the refusals of
    ``check_promotion``, AddressNotFound and IdentityNotFound.
    """
    lock_identity(address.identity_id)
    now = database_now()
    address = _read(address)
    standing = _standing(address, platform_id)
    if standing.role == AddressRole.PRIMARY:
        return address
    check_promotion(standing, is_ready=domain.is_ready)
    previous = _step_down(address, standing, platform_id, after_days, now=now)
    write_status(address, AddressStatus.ACTIVE, role=AddressRole.PRIMARY)
    tell("address_promoted", address, now=now, previous_primary=address_json(previous))
    if previous.status == AddressStatus.RETIRED:
        tell("address_retired", previous, now=now)
    note("address.promote", address, actor_key_id, previous=previous.id)
    return address


def _step_down(
    promoted: Address, standing: Standing, platform_id: str, days: int, *, now: datetime
) -> Address:
    """Make room for another primary address; return the one before as it is now."""
    previous = Address.objects.get(
        identity_id=promoted.identity_id, role=AddressRole.PRIMARY
    )
    status = previous_becomes(
        standing, _standing(previous, platform_id), after_days=days
    )
    write_status(previous, status, at=now + timedelta(days=days))
    return previous


def retire_address(
    address: Address,
    *,
    platform_id: str,
    after_days: int,
    actor_key_id: str | None = None,
) -> Address:
    """Let an alias answer its threads for some days yet, or retire it at once.

    Repeated for a retiring one, it moves the day. Joins the caller's transaction.
    Retiring a retired address changes nothing. Raises the refusals of
    ``check_retirement``, AddressNotFound and IdentityNotFound.
    """
    lock_identity(address.identity_id)
    now = database_now()
    address = _read(address)
    check_retirement(_standing(address, platform_id))
    if address.status == AddressStatus.RETIRED:
        return address
    write_status(address, ends_as(after_days), at=now + timedelta(days=after_days))
    if address.status == AddressStatus.RETIRED:
        tell("address_retired", address, now=now)
    note("address.retire", address, actor_key_id, after_days=after_days)
    return address


def delete_address(
    address: Address, *, platform_id: str, actor_key_id: str | None = None
) -> None:
    """Drop an address that is still pending: it never sent or received anything.

    Joins the caller's transaction. Raises the refusals of ``check_deletion``,
    AddressNotFound and IdentityNotFound.
    """
    lock_identity(address.identity_id)
    address = _read(address)
    check_deletion(_standing(address, platform_id))
    Address.objects.filter(id=address.id).delete()
    note("address.delete", address, actor_key_id)


def _read(address: Address) -> Address:
    """Read an address again, under its mailbox's lock."""
    found = Address.objects.filter(id=address.id).first()
    if found is None:
        raise AddressNotFound("No such address.")
    return found


def _standing(address: Address, platform_id: str) -> Standing:
    return Standing(
        role=AddressRole(address.role),
        status=AddressStatus(address.status),
        is_platform=address.domain_id == platform_id,
    )
