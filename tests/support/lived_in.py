"""A mailbox that has been lived in: one row of every kind that a path can name."""

import uuid
from typing import Any

from core import objects
from core.clock import database_now
from core.ids import new_id
from delivery.models import Attempt
from mailboxes.key_services import create_key
from mailboxes.models import Address, Identity, Message
from mailboxes.statuses import AddressRole, AddressStatus
from outbound.transports.base import UncertainReason, Unknown
from suppressions.models import SendListEntry
from suppressions.services import NewSuppression, suppress
from suppressions.statuses import ListDirection, ListKind, SuppressionReason
from tests.factories import (
    MIME,
    AddressFactory,
    QueuedMessageFactory,
    ThreadFactory,
    WebhookEndpointFactory,
)
from tests.support.answering import counted, received, with_file
from tests.support.outbox import happen
from tests.support.scripted import ScriptedTransport, work
from webhooks import outbox
from webhooks.models import WebhookAttempt, WebhookEndpoint
from webhooks.statuses import AttemptStatus

SUPPRESSED = "sam@example.com"
"""An address that the tenant suppresses, and that stands on its block list."""
NAMED = {
    "address": SUPPRESSED,
    "direction": "send",
    "kind": "block",
    "entry": SUPPRESSED,
    "purpose": "link",
}
"""Parts of a path that are no ids."""


def lived_in(identity: Identity) -> dict[str, str]:
    """Give an identity one row of every kind; return their names, by part of a path.

    The message came in, with a file and its raw form, and can be answered; the address
    is an active alias. Some rows more are for calls that need them as they are.
    """
    message = received(identity, raw_key=f"t/{identity.tenant_id}/{uuid.uuid4()}.eml")
    objects.put(message.raw_key or "", MIME, metadata={})
    tried(message)
    file = with_file(message)
    suppressed(identity.tenant_id, SUPPRESSED)
    listed(identity.tenant_id, SUPPRESSED)
    own = alias(identity)
    return {
        **NAMED,
        "domain_id": own.domain_id,
        "known_address": own.address,
        "pending_address_id": alias(identity, status=AddressStatus.PENDING).id,
        "doubtful_message_id": in_doubt(identity),
        "queued_message_id": queued(identity).public_id,
        "tenant_id": identity.tenant_id,
        "identity_id": identity.id,
        "address_id": own.id,
        "thread_id": counted(message.thread).public_id,
        "message_id": message.public_id,
        "attachment_id": file.id,
        "key_id": create_key(name="spare", identity=identity).key.id,
        "webhook_id": called(hooked(identity.tenant_id)).endpoint_id,
        "event_id": told(identity),
    }


def tried(message: Message) -> None:
    """Give a message one more attempt of a transport."""
    Attempt.objects.create(
        message=message,
        tenant=message.tenant,
        n=message.attempts.count() + 1,
        provider="smtp",
        claim_token=uuid.uuid4(),
        claimed_at=database_now(),
        phase="answered",
        from_address="",
    )


def hooked(tenant_id: str) -> WebhookEndpoint:
    """Give a tenant an endpoint."""
    made: WebhookEndpoint = WebhookEndpointFactory.create(tenant_id=tenant_id)
    return made


def called(endpoint: WebhookEndpoint) -> WebhookAttempt:
    """Give an endpoint one more attempt."""
    return WebhookAttempt.objects.create(
        id=new_id("dlv"),
        endpoint=endpoint,
        event_id=new_id("evt"),
        event_type="message.sent",
        attempt=1,
        status=AttemptStatus.SUCCEEDED,
        http_status=204,
        created_at=database_now(),
    )


def told(identity: Identity) -> str:
    """Give a mailbox an event that has its place in the feed; return its id."""
    event_id = happen(identity)
    outbox.number_all()
    return event_id


def suppressed(tenant_id: str, address: str) -> None:
    """Suppress an address for a tenant."""
    wanted = NewSuppression(address, SuppressionReason.MANUAL)
    now = database_now()
    suppress([wanted], tenant_id=tenant_id, source_message_id=None, now=now)


def listed(tenant_id: str, entry: str) -> None:
    """Put an entry on a tenant's list of blocked recipients."""
    SendListEntry.objects.create(
        tenant_id=tenant_id,
        direction=ListDirection.SEND,
        kind=ListKind.BLOCK,
        entry=entry,
    )


def alias(identity: Identity, **changes: Any) -> Address:
    """Give an identity an active alias on a domain of its own."""
    made: Address = AddressFactory.create(
        identity=identity, role=AddressRole.ALIAS, **changes
    )
    return made


def queued(identity: Identity) -> Message:
    """Give an identity a message that waits for a worker, in a thread of its own."""
    seq = 5000 + identity.threads.count()
    thread = ThreadFactory.create(identity=identity, seq=seq)
    made: Message = QueuedMessageFactory.create(thread=thread)
    return made


def in_doubt(identity: Identity) -> str:
    """Return the id of a message that may have been sent, or not."""
    message = queued(identity)
    work(
        message.public_id,
        ScriptedTransport([Unknown(UncertainReason.TIMEOUT, "silence")]),
    )
    return message.public_id
