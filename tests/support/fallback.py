"""Identities that have an address on the platform's domain, and what carries it."""

from pathlib import Path

from core import objects
from domains.models import Domain
from domains.statuses import (
    DomainKind,
    DomainState,
    Inbound,
    Method,
    ReplyToken,
    Transport,
)
from mailboxes.models import Address, Message, Thread
from mailboxes.statuses import AddressRole, MessageKind
from tests.factories import (
    AddressFactory,
    DomainFactory,
    IdentityFactory,
    ThreadFactory,
)
from tests.support import cloudflare
from tests.support.smtp_server import SmtpServer

PLATFORM = "agents.test"


def thread_with_fallback(
    own: str = "smtp", *, platform: str, state: str = DomainState.FAILING
) -> Thread:
    """Return a thread of an identity whose own domain is in this state.

    ``own`` and ``platform`` are the transports of the two domains.
    """
    identity = IdentityFactory.create()
    domain = DomainFactory.create(tenant=identity.tenant, transport=own, state=state)
    AddressFactory.create(identity=identity, domain=domain)
    AddressFactory.create(
        identity=identity, domain=platform_domain(platform), role=AddressRole.ALIAS
    )
    thread: Thread = ThreadFactory.create(identity=identity)
    return thread


def platform_domain(transport: str) -> Domain:
    """Return the platform's domain, made if there is none."""
    found, _ = Domain.objects.get_or_create(
        kind=DomainKind.PLATFORM,
        defaults={
            "id": "dom_00000000000000000000000001",
            "name": PLATFORM,
            "method": Method.PLATFORM,
            "inbound": Inbound.DIRECT,
            "transport": Transport(transport),
            "reply_token": ReplyToken.SUBADDRESS,
            "state": DomainState.HEALTHY,
        },
    )
    return found


def queued(
    thread: Thread,
    *recipients: str,
    kind: MessageKind = MessageKind.TRANSACTIONAL,
) -> Message:
    """Return a queued message of the own address, with a composed sent copy."""
    own = thread.identity.addresses.get(role=AddressRole.PRIMARY)
    return cloudflare.queued(
        *recipients, thread=thread, from_address=own.address, kind=kind
    )


def fallback_address(message: Message) -> Address:
    """Return the address that the message's identity keeps on the platform's domain."""
    found: Address = message.identity.addresses.get(domain__kind=DomainKind.PLATFORM)
    return found


def sent_copy(message: Message) -> bytes:
    """Return what was stored when the message was accepted."""
    return objects.get(message.raw_key or "")


def platform_relay(relay: SmtpServer, directory: Path) -> dict[str, str]:
    """Return the settings that let the platform's mail leave by this relay."""
    bundle = directory / "relays.pem"
    bundle.write_text(relay.ca)
    return {
        "PM_PLATFORM_RELAY_URL": f"smtps://user:secret@{relay.host}:{relay.port}",
        "PM_RELAY_CA_FILE": str(bundle),
    }
