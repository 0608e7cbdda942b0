"""Many queued messages of one mailbox at the price of a few statements."""

from collections import Counter as Tally
from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db.models import F

from core import objects
from core.clock import database_now
from core.ids import new_id
from delivery.models import Delivery, OutboundState
from mailboxes.models import Identity, Message, Thread
from quota.caps import TENANT_METRIC, identity_metric
from quota.models import Allowance, Counter, Hold
from tests.factories import MIME, ThreadFactory

RECIPIENT = "jo@example.net"


def queue_in_bulk(
    identity: Identity,
    number: int,
    *,
    due_at: datetime | Sequence[datetime] | None = None,
    recipients: Sequence[str] = (RECIPIENT,),
) -> list[str]:
    """Queue so many messages as accept() leaves them; return their ids, in order.

    ``due_at`` is when each was accepted: now, one instant for all, or one for each.

    Each has one recipient unless told otherwise, a hold, and a place on the day of the
    caps. They share one thread and one sent copy.
    """
    due_at = due_at or database_now()
    dues = [due_at] * number if isinstance(due_at, datetime) else due_at
    thread: Thread = ThreadFactory.create(identity=identity)
    objects.put("bulk/one-copy.eml", MIME, metadata={})
    address = identity.addresses.get().address
    messages = Message.objects.bulk_create(
        Message(
            public_id=new_id("msg"),
            tenant=identity.tenant,
            identity=identity,
            thread=thread,
            direction="outbound",
            status="queued",
            kind="transactional",
            operation="send",
            subject="Bulk",
            from_address=address,
            received_at=due,
            raw_key="bulk/one-copy.eml",
            cap_day=due.date(),
        )
        for due in dues
    )
    _beside(identity, messages, recipients)
    return [message.public_id for message in messages]


def _beside(
    identity: Identity,
    messages: Sequence[Message],
    recipients: Sequence[str],
) -> None:
    tenant = identity.tenant
    Delivery.objects.bulk_create(
        Delivery(
            message=message,
            tenant=tenant,
            address=address,
            field="to",
            status="queued",
        )
        for message in messages
        for address in recipients
    )
    OutboundState.objects.bulk_create(
        OutboundState(message=message, tenant=tenant, dispatch_at=message.received_at)
        for message in messages
    )
    Hold.objects.bulk_create(
        Hold(
            id=new_id("hld"),
            tenant=tenant,
            feature="sends",
            ref=message.public_id,
            units=len(recipients),
            expires_at=message.received_at + timedelta(days=365),
        )
        for message in messages
    )
    held = F("held") + len(messages) * len(recipients)
    Allowance.objects.filter(tenant=tenant).update(held=held)
    days = Tally(message.received_at.date() for message in messages)
    for metric in (TENANT_METRIC, identity_metric(identity.id)):
        for day, number in days.items():
            row, _ = Counter.objects.get_or_create(
                tenant=tenant, metric=metric, bucket=day.isoformat()
            )
            Counter.objects.filter(pk=row.pk).update(value=F("value") + number)
