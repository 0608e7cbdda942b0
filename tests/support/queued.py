"""Queued messages with a relay of their own, as a worker finds them."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import transaction
from django.db.models import Count

from core import objects
from core.sealing import Place, sealer
from delivery.models import Attempt, OutboundState
from domains.relay import RelaySettings
from mailboxes.models import Message, Thread
from mailboxes.statuses import AddressRole, MessageStatus
from tests.factories import (
    AddressFactory,
    DomainFactory,
    IdentityFactory,
    QueuedMessageFactory,
    ThreadFactory,
)
from tests.support.processes import until
from tests.support.smtp_script import Script
from tests.support.smtp_server import SmtpServer


def relay_settings(relay: SmtpServer, *, port: int = 0) -> RelaySettings:
    """Return what a domain that submits to this relay holds."""
    return RelaySettings(
        host=relay.host,
        port=port or relay.port,
        username="relay-user",
        password="relay-secret",
        implicit_tls=relay.script.tls == "implicit",
        ca=relay.ca,
    )


def thread_with_relay(relay: SmtpServer, *, port: int = 0) -> Thread:
    """Return a thread of an identity whose domain submits to this relay.

    ``port`` is that of a proxy before the relay, if there is one.
    """
    identity = IdentityFactory.create()
    domain = DomainFactory.create(
        tenant=identity.tenant, relay=relay_settings(relay, port=port)
    )
    AddressFactory.create(identity=identity, domain=domain)
    return ThreadFactory.create(identity=identity)


def move_to(relay: SmtpServer, thread: Thread, *, port: int = 0) -> None:
    """Let the domain of this thread's identity submit to another relay, or port."""
    domain = thread.identity.addresses.get(role=AddressRole.PRIMARY).domain
    place = Place("domains", "smtp_sealed", domain.id)
    domain.smtp_sealed = sealer().seal(
        relay_settings(relay, port=port).to_json(), place=place
    )
    domain.save(update_fields=["smtp_sealed"])


@transaction.atomic
def queue(number: int, thread: Thread) -> list[Message]:
    """Return queued messages, due now, each with a sent copy of its own.

    One transaction: a worker must not find the factory's copy, which has no Message-ID.
    """
    messages = QueuedMessageFactory.create_batch(number, thread=thread)
    for message in messages:
        copy = (
            f"Message-ID: <{message.rfc_message_id}>\r\n"
            f"Subject: {message.subject}\r\n\r\nSee you soon.\r\n"
        )
        objects.put(message.raw_key or "", copy.encode(), metadata={})
    return messages


def statuses() -> Counter[str]:
    """Return how many messages stand in each status."""
    rows = Message.objects.values_list("status").annotate(Count("key"))
    return Counter(dict(rows))


def wait_for(status: MessageStatus, number: int, *, seconds: float = 20.0) -> None:
    """Wait until so many messages have this status."""
    until(
        lambda: statuses()[status] >= number,
        seconds=seconds,
        what=f"{number} messages {status}",
    )


def wait_for_claims(number: int, *, seconds: float = 20.0) -> None:
    """Wait until so many attempts have begun."""
    until(
        lambda: Attempt.objects.count() >= number,
        seconds=seconds,
        what=f"{number} attempts",
    )


def assert_each_was_sent_once(relay: SmtpServer, messages: list[Message]) -> None:
    """Assert one copy and one attempt a message, and an empty queue."""
    wanted = {(f"<{message.rfc_message_id}>", "jo@example.net") for message in messages}
    assert dict(relay.copies) == dict.fromkeys(wanted, 1)
    assert Attempt.objects.count() == len(messages)
    assert not OutboundState.objects.exists()


@contextmanager
def relay_answering(**plan: str) -> Iterator[SmtpServer]:
    """Run a relay that does this on every connection."""
    with SmtpServer(Script(always=plan)) as relay:
        yield relay


def queued_for(transport: str, *recipients: str) -> Message:
    """Return a queued message whose domain has this transport, and no relay."""
    wanted = {"recipients": recipients} if recipients else {}
    message: Message = QueuedMessageFactory.create(**wanted)
    domain = message.identity.addresses.get().domain
    domain.transport, domain.smtp_sealed = transport, None
    domain.save(update_fields=["transport", "smtp_sealed"])
    return message
