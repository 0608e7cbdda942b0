"""Sends whose end nobody knows, made in bulk, and what providers say of them."""

from collections import Counter
from collections.abc import Sequence
from itertools import count
from typing import Any
from uuid import uuid4

from core.clock import database_now
from core.ids import new_id
from delivery import inbox
from delivery.events import DeliveryEvent
from delivery.models import Attempt, Delivery, ProviderEvent
from delivery.statuses import (
    AttemptPhase,
    AttemptResult,
    DeliveryKind,
    DeliveryStatus,
    EventSource,
    RecipientField,
)
from mailboxes.models import Event, Identity, Message
from mailboxes.statuses import Direction, MessageKind, MessageStatus, Operation
from tests.factories import ThreadFactory

A, B = "a@example.net", "b@example.net"

_numbers = count(1)


def doubts(
    identity: Identity, number: int, *, recipients: Sequence[str] = (A,)
) -> list[Message]:
    """Give an identity sends in doubt, as a call without an answer leaves them.

    Each has a subject of its own, so that no two are alike.
    """
    thread = ThreadFactory.create(
        identity=identity, seq=70_000 + identity.threads.count()
    )
    sender = identity.addresses.get().address
    now = database_now()
    messages = Message.objects.bulk_create(
        Message(
            public_id=new_id("msg"),
            tenant=identity.tenant,
            identity=identity,
            thread=thread,
            direction=Direction.OUTBOUND,
            status=MessageStatus.UNCERTAIN,
            reason="transport_timeout",
            kind=MessageKind.TRANSACTIONAL,
            operation=Operation.SEND,
            subject=f"Doubt {next(_numbers)}",
            from_address=sender,
            received_at=now,
            updated_at=now,
        )
        for _ in range(number)
    )
    Delivery.objects.bulk_create(
        Delivery(
            message=message,
            tenant=identity.tenant,
            address=address,
            field=RecipientField.TO,
            status=DeliveryStatus.UNCERTAIN,
            updated_at=now,
        )
        for message in messages
        for address in recipients
    )
    Attempt.objects.bulk_create(
        Attempt(
            message=message,
            tenant=identity.tenant,
            n=1,
            provider="smtp",
            claim_token=uuid4(),
            claimed_at=now,
            phase=AttemptPhase.AWAITING_REPLY,
            from_address=sender,
            recipients=list(recipients),
            finished_at=now,
            result=AttemptResult.UNCERTAIN,
        )
        for message in messages
    )
    return messages


def told(
    message: Message, kind: DeliveryKind, *, recipient: str = A, **fields: object
) -> DeliveryEvent:
    """Return what a provider says of a recipient; without an id of ours or its own."""
    given: dict[str, object] = {
        "source": EventSource.SES,
        "event_id": f"{message.public_id}:{kind}:{recipient}",
        "provider_message_id": None,
        "occurred_at": database_now(),
        "subject": message.subject,
        **fields,
    }
    return DeliveryEvent(
        sender=message.from_address or "",
        recipient=recipient,
        kind=kind,
        **given,  # type: ignore[arg-type]  # by name, as the class has them
    )


def stored(*events: DeliveryEvent) -> list[str]:
    """Store events as a hook does; return the ids of their rows, in their order."""
    inbox.store(events, due_at=[database_now()] * len(events))
    wanted = [event.event_id for event in events]
    rows = ProviderEvent.objects.filter(event_id__in=wanted)
    ids = dict(rows.values_list("event_id", "id"))
    return [ids[event_id] for event_id in wanted]


def told_of(type_: str) -> int:
    """Return how many events of a type there are, each of a message of its own."""
    payloads: Any = Event.objects.filter(type=type_).values_list("payload", flat=True)
    of_each = Counter(payload["data"]["message_id"] for payload in payloads)
    assert set(of_each.values()) == {1}
    return of_each.total()
