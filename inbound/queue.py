"""Queueing copies for mailboxes of this deployment; who queues one loads no reader."""

from collections.abc import Sequence
from datetime import datetime

from core.database import execute
from core.ids import new_id
from inbound.statuses import MailSource
from mailboxes.models import Message


def queue_copies(
    message: Message, recipients: Sequence[str], *, due_at: datetime
) -> None:
    """Queue a copy of a sent message for each of these recipients, once.

    Joins the caller's transaction, which holds the message. A copy that stands already
    is not queued again.
    """
    execute(
        "INSERT INTO inbound_jobs (id, tenant_id, source, source_message_id,"
        " source_key, recipient, message_id, due_at)"
        " SELECT c.id, %(tenant)s, %(source)s, %(message)s, %(key)s, c.recipient,"
        " c.message_id, %(due)s FROM unnest(%(ids)s::text[], %(recipients)s::text[],"
        " %(message_ids)s::text[]) AS c (id, recipient, message_id)"
        " ON CONFLICT (source_message_id, recipient) DO NOTHING",
        {
            "tenant": message.tenant_id,
            "source": str(MailSource.LOOPBACK),
            "message": message.public_id,
            "key": message.raw_key,
            "due": due_at,
            "ids": [new_id("job") for _ in recipients],
            "recipients": list(recipients),
            "message_ids": [new_id("msg") for _ in recipients],
        },
    )
