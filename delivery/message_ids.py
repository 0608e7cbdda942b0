"""Learning the Message-ID that a provider gave a mail in place of ours.

A reply that lost its thread's token, and a bounce report, are matched by it (the page,
"Message-ID of outbound mail").
"""

from core.database import execute
from delivery.events import DeliveryEvent
from delivery.statuses import InboxState
from mailboxes.models import Message


def learn_message_id(message: Message, event: DeliveryEvent) -> InboxState:
    """Keep the Message-ID that an event tells, with the message and with its call.

    No status changes. Joins the caller's transaction, which holds the message.
    """
    if event.rfc_message_id is None:
        return InboxState.APPLIED
    named = {
        "rfc_id": event.rfc_message_id,
        "message": message.key,
        "provider": str(event.source),
        "provider_id": event.provider_message_id,
    }
    execute(
        "UPDATE messages SET rfc_message_id = %(rfc_id)s WHERE pk = %(message)s", named
    )
    execute(
        "UPDATE attempts SET rfc_message_id = %(rfc_id)s"
        " WHERE message_pk = %(message)s AND n = (SELECT max(n) FROM attempts"
        " WHERE message_pk = %(message)s AND provider = %(provider)s"
        " AND (provider_message_id IS NULL"
        " OR provider_message_id = %(provider_id)s))",
        named,
    )
    return InboxState.APPLIED
