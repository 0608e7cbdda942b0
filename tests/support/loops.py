"""Test tenants whose mailboxes write to each other, and the worker that serves them."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from core import clock, objects
from core.clock import database_now
from core.ids import new_id
from delivery.models import OutboundState, ProviderEvent
from delivery.services import apply_event
from domains.statuses import ReplyToken
from inbound.models import InboundJob
from inbound.receive import receive
from mailboxes.key_services import create_key
from mailboxes.models import Address, Identity, Message, Tenant
from mailboxes.statuses import Direction, TenantMode
from outbound.deliver import deliver
from tests.factories import (
    AddressFactory,
    DomainFactory,
    IdentityFactory,
    TenantFactory,
)
from tests.support.api import ApiClient


@dataclass(frozen=True)
class Box:
    """A mailbox, its address, and a client that sends from it."""

    identity: Identity
    address: str
    api: ApiClient

    def received(self) -> list[Message]:
        """Return what came in, oldest first."""
        found = Message.objects.filter(
            identity=self.identity, direction=Direction.INBOUND
        )
        return list(found.select_related("thread").order_by("key"))

    def the_received(self) -> Message:
        """Return the one message that came in."""
        (message,) = self.received()
        return message

    def send(self, to: "Box | str", key: str = "key-1", **body: Any) -> Message:
        """Send a message that must be accepted; return its row."""
        given = {
            "to": [to.address if isinstance(to, Box) else to],
            "subject": "Your booking",
            "text": "See you on Friday.",
            **body,
        }
        return accepted(self.api.send(given, key=key))

    def reply(self, to: Message, key: str = "key-r", **body: Any) -> Message:
        """Reply to a message; the answer must be accepted."""
        given = {"text": "Fine.", **body}
        return accepted(self.api.answer("reply", to.public_id, given, key=key))


def accepted(response: Any) -> Message:
    """Return the message of a 202."""
    assert response.status_code == 202, response.content
    return Message.objects.get(public_id=response.json()["id"])


def new_box(
    tenant: Tenant | None = None,
    *,
    name: str = "Acme Bookings",
    reply_token: ReplyToken = ReplyToken.NONE,
    mode: TenantMode = TenantMode.TEST,
    **domain_fields: Any,
) -> Box:
    """Make a mailbox of a test tenant, on a domain of its own."""
    tenant = tenant or TenantFactory.create(mode=mode)
    identity = IdentityFactory.create(tenant=tenant, display_name=name)
    domain = DomainFactory.create(
        tenant=tenant, reply_token=reply_token, **domain_fields
    )
    address: Address = AddressFactory.create(identity=identity, domain=domain)
    secret = create_key(name="t", tenant=tenant).secret
    return Box(identity, address.address, ApiClient(secret, identity.id))


def two_boxes(reply_token: ReplyToken = ReplyToken.NONE) -> tuple[Box, Box]:
    """Make two mailboxes of one test tenant."""
    one = new_box(name="Ada", reply_token=reply_token)
    return one, new_box(one.identity.tenant, name="Bob", reply_token=reply_token)


def leave() -> None:
    """Make the call of every message that is queued."""
    ids = OutboundState.objects.values_list("message__public_id", flat=True)
    for message_id in sorted(ids):
        deliver(message_id)


def take_in() -> list[str | None]:
    """Take in every copy that is pending; return what became of each."""
    pending = InboundJob.objects.filter(state="pending").order_by("id")
    return [receive(job_id) for job_id in list(pending.values_list("id", flat=True))]


def hear() -> list[str | None]:
    """Apply every provider event that is pending, a minute from now."""
    clock.offset += timedelta(minutes=1)
    pending = ProviderEvent.objects.filter(state="pending").order_by("due_at", "id")
    return [apply_event(row) for row in list(pending.values_list("id", flat=True))]


def work() -> None:
    """Do all that workers do, once round."""
    leave()
    take_in()
    hear()


def copy_of(raw: bytes, box: Box, *, tenant: Tenant | None = None) -> InboundJob:
    """Queue these octets for a mailbox, as if a mailbox of a test tenant sent them."""
    sender = tenant or box.identity.tenant
    message_id = new_id("msg")
    key = f"t/{sender.id}/i/{box.identity.id}/out/{message_id}.eml"
    objects.put(key, raw, metadata={})
    return InboundJob.objects.create(
        id=new_id("job"),
        tenant=sender,
        source="loopback",
        source_message_id=message_id,
        source_key=key,
        recipient=box.address,
        message_id=new_id("msg"),
        due_at=database_now(),
    )


def letter(box: Box, *fields: str, body: str = "Hello") -> bytes:
    """Return a plain message to a mailbox, with more fields."""
    head = [f"From: Jo <jo@example.net>\r\nTo: {box.address}", *fields]
    return ("\r\n".join(head) + f"\r\n\r\n{body}\r\n").encode()
