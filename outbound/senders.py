"""What is known, at claim time, of who sends a message and from which domain."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from django.conf import settings

from core import clock
from core.database import fetch_one
from core.sealing import SealBroken
from domains.models import Domain
from domains.services import relay_of
from domains.statuses import DomainKind, DomainState, ReplyToken, Transport
from mailboxes.models import Address, Identity, Message
from mailboxes.policy import effective_policy
from mailboxes.selectors import has_alerted_since
from mailboxes.services import raise_alert
from mailboxes.statuses import IdentityStatus, MessageKind, TenantMode, TenantStatus
from outbound.configured import is_configured
from outbound.departure import Depart, DepartureFacts, PlatformFacts
from outbound.transports.base import Relay

HELD_BACK_FOR: Final = timedelta(minutes=15)
"""How long an account counts as paused after it last said so; then one call asks."""


@dataclass(frozen=True, slots=True)
class Origin:
    """An address that mail leaves from, and the relay to leave by."""

    address: str
    domain_id: str
    domain_name: str
    reply_token: ReplyToken
    relay: Relay | None


@dataclass(frozen=True, slots=True)
class Sender:
    """The facts that decide a departure, and where mail can leave from."""

    facts: DepartureFacts
    own: Origin
    platform: Origin | None = None

    def origin(self, way: Depart) -> Origin:
        """Return where a message leaves from."""
        if way.falls_back:
            assert self.platform is not None  # noqa: S101  its facts were known
            return self.platform
        return self.own


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


def sender_of(message: Message, *, now: datetime) -> Sender | None:
    """Read identity, tenant and domains as they are now; joins the caller's.

    None when the identity has been deleted, and its addresses with it. Raises
    Address.DoesNotExist when nothing says why an address is missing.
    """
    identity = Identity.objects.select_related("tenant").get(pk=message.identity_id)
    found = Address.objects.select_related("domain").filter(identity=identity)
    if identity.status in (IdentityStatus.DELETING, IdentityStatus.DELETED):
        return None
    address = found.get(address=message.from_address)
    own = _origin(address)
    transport = Transport(address.domain.transport)
    policy = effective_policy(settings.PM_DEFAULT_POLICY, identity.tenant.policy)
    facts = DepartureFacts(
        identity_status=IdentityStatus(identity.status),
        tenant_status=TenantStatus(identity.tenant.status),
        tenant_mode=TenantMode(identity.tenant.mode),
        domain_state=DomainState(address.domain.state),
        domain_kind=DomainKind(address.domain.kind),
        transport=transport,
        may_fall_back=bool(policy["domain_fallback"]),
        is_configured=is_configured(transport, has_relay=own.relay is not None),
        kind=MessageKind(message.kind),
        is_held_back=transport == Transport.SES
        and has_alerted_since("ses_sending_paused", since=now - HELD_BACK_FOR),
    )
    if not facts.needs_fallback:
        return Sender(facts, own)
    return _with_platform(
        Sender(facts, own), found.filter(domain__kind=DomainKind.PLATFORM).first()
    )


def _with_platform(sender: Sender, address: Address | None) -> Sender:
    """Add the address that an identity keeps on the platform's domain for life."""
    if address is None:
        return sender
    origin = _origin(address)
    transport = Transport(address.domain.transport)
    platform = PlatformFacts(
        state=DomainState(address.domain.state),
        transport=transport,
        is_configured=is_configured(transport, has_relay=origin.relay is not None),
    )
    return replace(
        sender, facts=replace(sender.facts, platform=platform), platform=origin
    )


def _origin(address: Address) -> Origin:
    domain = address.domain
    return Origin(
        address=address.address,
        domain_id=domain.id,
        domain_name=domain.name,
        reply_token=ReplyToken(domain.reply_token),
        relay=_relay(domain) if domain.transport == Transport.SMTP else None,
    )


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
