"""Who a copy is for, and whether it is taken in. Pure (mailboxes, section 4.1)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from mailboxes.recipients import Party
from mailboxes.statuses import AddressStatus, IdentityStatus, TenantStatus
from mailboxes.thread_tokens import split_subaddress

HELD_FOR: Final = timedelta(days=5)
"""How long mail to a suspended tenant waits; what comes later is dropped."""
LOOK_AGAIN_AFTER: Final = timedelta(hours=1)
REACHED: Final = frozenset({AddressStatus.ACTIVE, AddressStatus.RETIRING})
ALIVE: Final = frozenset({IdentityStatus.ACTIVE, IdentityStatus.PAUSED})


@dataclass(frozen=True, slots=True)
class OwnAddress:
    """An address of the mailbox; ``takes_forwarded`` where others forward its mail."""

    address: str
    status: AddressStatus
    is_platform: bool
    takes_forwarded: bool


@dataclass(frozen=True, slots=True)
class Destination:
    """The mailbox behind an envelope recipient, as it is now.

    ``address`` is the recipient without its tag, and ``detail`` the tag.
    """

    identity_id: str
    tenant_id: str
    address: str
    detail: str | None
    identity_status: IdentityStatus
    tenant_status: TenantStatus
    suspended_at: datetime | None
    own: tuple[OwnAddress, ...]

    @property
    def entry(self) -> OwnAddress:
        """Return the address that the mail came to."""
        return next(own for own in self.own if own.address == self.address)

    @property
    def addresses(self) -> frozenset[str]:
        """Return every address of the mailbox."""
        return frozenset(own.address for own in self.own)


@dataclass(frozen=True, slots=True)
class TakeIn:
    """The mail belongs into this mailbox."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Not now: asked again later."""


@dataclass(frozen=True, slots=True)
class Drop:
    """There is no such mailbox any more; nobody is told, and nothing bounces."""

    reason: str


Decision = TakeIn | Wait | Drop


def decide(destination: Destination | None, *, now: datetime) -> Decision:
    """Return what becomes of mail that was already accepted for an address."""
    if destination is None or destination.identity_status not in ALIVE:
        return Drop("no_such_mailbox")
    if destination.entry.status not in REACHED:
        return Drop("address_not_active")
    if destination.tenant_status != TenantStatus.SUSPENDED:
        return TakeIn()
    since = destination.suspended_at
    is_long = since is not None and now - since >= HELD_FOR
    return Drop("tenant_suspended") if is_long else Wait()


def base_of(address: str) -> str:
    """Return an address without its tag."""
    return split_subaddress(address)[0]


def delivered_to(destination: Destination, named: Iterable[Party]) -> str:
    """Return the address that a message was meant for.

    Mail that another domain's provider forwards to the platform address was meant for
    the address there that To or Cc names.
    """
    if not destination.entry.is_platform:
        return destination.address
    forwarded = {own.address for own in destination.own if own.takes_forwarded}
    meant = (base_of(party.address) for party in named)
    return next((base for base in meant if base in forwarded), destination.address)


def is_bcc(address: str, named: Iterable[Party]) -> bool:
    """Tell whether neither To nor Cc names the address that got the mail."""
    return all(base_of(party.address) != address for party in named)


def is_primary(
    identity_id: str, named: Iterable[Party], holders: Mapping[str, str]
) -> bool:
    """Tell whether this mailbox is the first of its tenant that the header names.

    ``holders`` are the identities of the tenant's addresses. True when it names none:
    then nobody else is meant.
    """
    found = (holders.get(base_of(party.address)) for party in named)
    return next((holder for holder in found if holder), identity_id) == identity_id
