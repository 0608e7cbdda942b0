"""Whether a message may leave now, and by which way: pure, asked at claim time.

Identity, tenant and domain are read again then, because hours may lie between submit
and claim (the page, "The outbound consumer" and "From address and fallback").
"""

from dataclasses import dataclass
from typing import Literal

from domains.statuses import BROKEN, GONE, NOT_READY, DomainKind, DomainState, Transport
from mailboxes.statuses import (
    IdentityStatus,
    MessageKind,
    Provider,
    TenantMode,
    TenantStatus,
)
from outbound.ways import MARKETING_NEEDS_SES, WAYS, is_marketing_refused


@dataclass(frozen=True, slots=True)
class DepartureFacts:
    """What is known of sender and domain at this moment."""

    identity_status: IdentityStatus
    tenant_status: TenantStatus
    tenant_mode: TenantMode
    domain_state: DomainState
    domain_kind: DomainKind
    transport: Transport
    may_fall_back: bool
    is_configured: bool
    kind: MessageKind = MessageKind.TRANSACTIONAL


@dataclass(frozen=True, slots=True)
class Depart:
    """It may leave, by this transport."""

    provider: Provider


@dataclass(frozen=True, slots=True)
class Stop:
    """The identity or tenant has been stopped: what is unsent is not sent."""

    reason: Literal["identity_paused", "identity_deleted", "tenant_suspended"]


@dataclass(frozen=True, slots=True)
class Refuse:
    """It can never leave from this domain."""

    status: Literal["failed", "rejected"]
    reason: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Not now; asked again after a back-off."""

    code: str


Departure = Depart | Stop | Refuse | Wait


def departure(facts: DepartureFacts) -> Departure:
    """Return what becomes of a message that is due."""
    if facts.tenant_status == TenantStatus.SUSPENDED:
        return Stop("tenant_suspended")
    if facts.identity_status == IdentityStatus.PAUSED:
        return Stop("identity_paused")
    if facts.identity_status != IdentityStatus.ACTIVE:
        return Stop("identity_deleted")
    if facts.domain_state in GONE:
        return Refuse("rejected", "sender_domain_unavailable")
    if facts.domain_state in NOT_READY:
        return Wait("domain_not_ready")
    if facts.domain_state in BROKEN:
        return _from_a_broken_domain(facts)
    return _by_transport(facts)


def _from_a_broken_domain(facts: DepartureFacts) -> Departure:
    """Never leave from it; until fallback is built, wait for the domain instead."""
    if not facts.may_fall_back or facts.domain_kind == DomainKind.PLATFORM:
        return Refuse("failed", "domain_failing_no_fallback")
    return Wait("domain_failing")


def _by_transport(facts: DepartureFacts) -> Departure:
    if facts.tenant_mode == TenantMode.TEST:
        return Depart(Provider.LOOPBACK)  # or the simulator, by the recipients
    if is_marketing_refused(facts.kind, facts.transport):
        return Refuse("rejected", MARKETING_NEEDS_SES)
    way = WAYS[facts.transport]
    return Depart(way.provider) if facts.is_configured else Wait(way.closed)
