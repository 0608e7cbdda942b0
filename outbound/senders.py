"""What is known, at claim time, of who sends a message and from which domain."""

from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings

from core import clock
from core.database import fetch_one
from core.sealing import SealBroken
from domains.models import Domain
from domains.services import relay_of
from domains.statuses import DomainKind, DomainState, Transport
from mailboxes.models import Address, Identity, Message
from mailboxes.policy import effective_policy
from mailboxes.services import raise_alert
from mailboxes.statuses import IdentityStatus, MessageKind, TenantMode, TenantStatus
from outbound.configured import is_configured
from outbound.departure import DepartureFacts
from outbound.transports.base import Relay


@dataclass(frozen=True, slots=True)
class Sender:
    """The facts that decide a departure, and the relay to leave by."""

    facts: DepartureFacts
    domain_id: str
    domain_name: str
    relay: Relay | None


@dataclass(frozen=True, slots=True)
class Waiting:
    """What is known of a message before its claim: who shares a socket's slots."""

    domain: str
    needs_slot: bool


def waiting(message_id: str) -> Waiting | None:
    """Return what a ring is about, or None if no call can be due: asked cheaply.

    None for a message that is not queued, is claimed, or waits for its back-off, so
    that a doubled ring takes no slot. The claim asks all of it again under its locks.
    """
    row = fetch_one(
        "SELECT split_part(m.from_address, '@', 2), t.mode FROM outbound_state s"
        " JOIN messages m ON m.pk = s.message_pk JOIN tenants t ON t.id = m.tenant_id"
        " WHERE m.id = %(message)s AND coalesce("
        "  s.claimed_at <= clock_timestamp() + %(clock_offset)s - %(claim)s, true)"
        " AND coalesce(s.retry_at <= clock_timestamp() + %(clock_offset)s, true)",
        {
            "message": message_id,
            "clock_offset": clock.offset,
            "claim": timedelta(seconds=settings.PM_CLAIM_SECONDS),
        },
    )
    if row is None:
        return None
    return Waiting(domain=row[0], needs_slot=row[1] != TenantMode.TEST)


def sender_of(message: Message) -> Sender | None:
    """Read identity, tenant and domain as they are now; joins the caller's.

    None when the identity has been deleted, and its addresses with it. Raises
    Address.DoesNotExist when nothing says why an address is missing.
    """
    identity = Identity.objects.select_related("tenant").get(pk=message.identity_id)
    found = Address.objects.select_related("domain").filter(identity=identity)
    if identity.status in (IdentityStatus.DELETING, IdentityStatus.DELETED):
        return None
    address = found.get(address=message.from_address)
    transport = Transport(address.domain.transport)
    relay = _relay(address.domain) if transport == Transport.SMTP else None
    policy = effective_policy(settings.PM_DEFAULT_POLICY, identity.tenant.policy)
    facts = DepartureFacts(
        identity_status=IdentityStatus(identity.status),
        tenant_status=TenantStatus(identity.tenant.status),
        tenant_mode=TenantMode(identity.tenant.mode),
        domain_state=DomainState(address.domain.state),
        domain_kind=DomainKind(address.domain.kind),
        transport=transport,
        may_fall_back=bool(policy["domain_fallback"]),
        is_configured=is_configured(transport, has_relay=relay is not None),
        kind=MessageKind(message.kind),
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
