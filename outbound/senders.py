"""What is known, at claim time, of who sends a message and from which domain."""

from dataclasses import dataclass

from django.conf import settings

from core.sealing import SealBroken
from domains.models import Domain
from domains.services import relay_of
from domains.statuses import DomainKind, DomainState, Transport
from mailboxes.models import Address, Identity, Message
from mailboxes.policy import effective_policy
from mailboxes.services import raise_alert
from mailboxes.statuses import IdentityStatus, TenantMode, TenantStatus
from outbound.departure import DepartureFacts
from outbound.transports.base import Relay


@dataclass(frozen=True, slots=True)
class Sender:
    """The facts that decide a departure, and the relay to leave by."""

    facts: DepartureFacts
    domain_id: str
    domain_name: str
    relay: Relay | None


def sender_of(message: Message) -> Sender:
    """Read identity, tenant and domain as they are now; joins the caller's."""
    identity = Identity.objects.select_related("tenant").get(pk=message.identity_id)
    address = Address.objects.select_related("domain").get(address=message.from_address)
    relay = _relay(address.domain)
    policy = effective_policy(settings.PM_DEFAULT_POLICY, identity.tenant.policy)
    facts = DepartureFacts(
        identity_status=IdentityStatus(identity.status),
        tenant_status=TenantStatus(identity.tenant.status),
        tenant_mode=TenantMode(identity.tenant.mode),
        domain_state=DomainState(address.domain.state),
        domain_kind=DomainKind(address.domain.kind),
        transport=Transport(address.domain.transport),
        may_fall_back=bool(policy["domain_fallback"]),
        has_relay=relay is not None,
    )
    return Sender(facts, address.domain.id, address.domain.name, relay)


def _relay(domain: Domain) -> Relay | None:
    """Return the relay to submit to; None when there is none that can be used."""
    try:
        found = relay_of(domain)
    except SealBroken:
        raise_alert("relay_credentials_unreadable", subject=domain.id)
        return None
    if found is None:
        return None
    return Relay(
        host=found.host,
        port=found.port,
        username=found.username,
        password=found.password,
        implicit_tls=found.implicit_tls,
        ca=found.ca,
    )
