"""What may be done with an address, and what follows: pure (mailboxes, section 2.4)."""

from dataclasses import dataclass
from typing import Final

from core.errors import InvalidRequest
from mailboxes.errors import (
    AddressInUse,
    AddressIsPrimary,
    FallbackAddress,
    SendingDomainNotReady,
)
from mailboxes.statuses import AddressRole, AddressStatus

MOST_ADDRESSES: Final = 20
"""Addresses of one identity that are not retired."""

KEPT_DAYS: Final = 90
"""Days that an address which is no longer primary goes on answering its threads."""


@dataclass(frozen=True, slots=True)
class SendingDomain:
    """A domain as addresses see it."""

    id: str
    name: str
    is_platform: bool
    is_ready: bool


@dataclass(frozen=True, slots=True)
class Standing:
    """How an address stands: its role, its status, and whether it is the fallback."""

    role: AddressRole
    status: AddressStatus
    is_platform: bool


def check_promotion(address: Standing, *, is_ready: bool) -> None:
    """Raise unless the address may become primary; its domain is ready or is not.

    Raises SendingDomainNotReady, and InvalidRequest for a retired one.
    """
    if address.status == AddressStatus.RETIRED:
        raise _retired("A retired address cannot be promoted.")
    if address.status == AddressStatus.PENDING or not is_ready:
        raise SendingDomainNotReady("The domain of this address is not ready.")


def previous_becomes(
    promoted: Standing, previous: Standing, *, after_days: int
) -> AddressStatus:
    """Return what the primary address before becomes, as an alias.

    It stays active when it is the platform's, or when the promotion goes back: to a
    retiring address, or to the platform's.
    """
    goes_back = promoted.status == AddressStatus.RETIRING or promoted.is_platform
    if goes_back or previous.is_platform:
        return AddressStatus.ACTIVE
    return ends_as(after_days)


def ends_as(after_days: int) -> AddressStatus:
    """Return the status of an address that is retired after so many days."""
    return AddressStatus.RETIRING if after_days else AddressStatus.RETIRED


def check_retirement(address: Standing) -> None:
    """Raise unless the address may be retired.

    Raises FallbackAddress, AddressIsPrimary, and InvalidRequest for a pending one.
    """
    if address.is_platform:
        raise FallbackAddress("The address on the platform's domain never retires.")
    if address.role == AddressRole.PRIMARY:
        raise AddressIsPrimary("The primary address cannot be retired.")
    if address.status == AddressStatus.PENDING:
        raise InvalidRequest(
            "A pending address is deleted, not retired.",
            details={"reason": "address_pending"},
        )


def check_deletion(address: Standing) -> None:
    """Raise FallbackAddress, AddressIsPrimary or AddressInUse unless it is pending."""
    if address.is_platform:
        raise FallbackAddress("The address on the platform's domain stays for life.")
    if address.role == AddressRole.PRIMARY:
        raise AddressIsPrimary("The primary address cannot be deleted.")
    if address.status != AddressStatus.PENDING:
        raise AddressInUse("Only an address that is pending can be deleted.")


def _retired(message: str) -> InvalidRequest:
    return InvalidRequest(message, details={"reason": "address_retired"})
