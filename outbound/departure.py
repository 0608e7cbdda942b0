"""Whether a message may leave now, and by which way: pure, asked at claim time.

Identity, tenant and domain are read again then, because hours may lie between submit
and claim (the page, "The outbound consumer" and "From address and fallback").
"""

from dataclasses import dataclass, replace
from typing import Literal

from domains.statuses import (
    BROKEN,
    GONE,
    NOT_READY,
    READY,
    DomainKind,
    DomainState,
    Transport,
)
from mailboxes.statuses import (
    IdentityStatus,
    MessageKind,
    Provider,
    TenantMode,
    TenantStatus,
)
from outbound.ways import MARKETING_NEEDS_SES, WAYS, is_marketing_refused


@dataclass(frozen=True, slots=True)
class PlatformFacts:
    """The platform's domain, for an identity that has an address there."""

    state: DomainState
    transport: Transport
    is_configured: bool


@dataclass(frozen=True, slots=True)
class DepartureFacts:
    """What is known of sender and domain at this moment.

    ``is_held_back`` says that the transport's account may not send just now.
    """

    identity_status: IdentityStatus
    tenant_status: TenantStatus
    tenant_mode: TenantMode
    domain_state: DomainState
    domain_kind: DomainKind
    transport: Transport
    may_fall_back: bool
    is_configured: bool
    kind: MessageKind = MessageKind.TRANSACTIONAL
    is_held_back: bool = False
    platform: PlatformFacts | None = None

    @property
    def needs_fallback(self) -> bool:
        """Tell whether nothing may leave from the domain itself (mailboxes, 2.6)."""
        is_test = self.tenant_mode == TenantMode.TEST
        is_held_back = (
            self.is_held_back
            and self.domain_kind == DomainKind.EXTERNAL
            and not is_test
        )
        return self.domain_state in BROKEN or is_held_back


@dataclass(frozen=True, slots=True)
class Depart:
    """It may leave, by this transport; by fallback from the platform's address."""

    provider: Provider
    falls_back: bool = False


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
    if facts.needs_fallback:
        return _by_fallback(facts, facts.platform)
    return _by_transport(facts)


def _by_fallback(facts: DepartureFacts, platform: PlatformFacts | None) -> Departure:
    """Leave from the platform's domain, whatever the transport of the own one is.

    The platform's domain itself has no fallback. Where it leaves by the very account
    that is held back, the mail waits: another From would not help it.
    """
    may_fall_back = facts.may_fall_back and facts.domain_kind == DomainKind.EXTERNAL
    if not may_fall_back or platform is None or platform.state not in READY:
        return Refuse("failed", "domain_failing_no_fallback")
    if facts.domain_state not in BROKEN and platform.transport == facts.transport:
        return Wait("account_held_back")
    from_platform = replace(
        facts, transport=platform.transport, is_configured=platform.is_configured
    )
    way = _by_transport(from_platform)
    return replace(way, falls_back=True) if isinstance(way, Depart) else way


def _by_transport(facts: DepartureFacts) -> Departure:
    if facts.tenant_mode == TenantMode.TEST:
        return Depart(Provider.LOOPBACK)  # or the simulator, by the recipients
    if is_marketing_refused(facts.kind, facts.transport):
        return Refuse("rejected", MARKETING_NEEDS_SES)
    way = WAYS[facts.transport]
    return Depart(way.provider) if facts.is_configured else Wait(way.closed)
