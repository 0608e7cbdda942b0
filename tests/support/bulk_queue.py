"""Many queued messages of one mailbox at the price of a few statements."""

from collections.abc import Sequence
from datetime import datetime

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
    due_at: datetime | None = None,
    recipients: Sequence[str] = (RECIPIENT,),
) -> list[str]:
    """Queue so many messages as accept() leaves them; return their ids, in order.

    Each has one recipient unless told otherwise, a hold, and a place on the day of the
    caps. They share one thread and one sent copy.
    """
    now = due_at or database_now()
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
            received_at=now,
            raw_key="bulk/one-copy.eml",
            cap_day=now.date(),
        )
        for _ in range(number)
    )
    _beside(identity, messages, recipients, now)
    return [message.public_id for message in messages]


def _beside(
    identity: Identity,
    messages: Sequence[Message],
    recipients: Sequence[str],
    now: datetime,
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
        OutboundState(message=message, tenant=tenant, dispatch_at=now)
        for message in messages
    )
    Hold.objects.bulk_create(
        Hold(
            id=new_id("hld"),
            tenant=tenant,
            feature="sends",
            ref=message.public_id,
            units=len(recipients),
            expires_at=now.replace(year=now.year + 1),
        )
        for message in messages
    )
    held = F("held") + len(messages) * len(recipients)
    Allowance.objects.filter(tenant=tenant).update(held=held)
    for metric in (TENANT_METRIC, identity_metric(identity.id)):
        row, _ = Counter.objects.get_or_create(
            tenant=tenant, metric=metric, bucket=now.date().isoformat()
        )
        Counter.objects.filter(pk=row.pk).update(value=F("value") + len(messages))
