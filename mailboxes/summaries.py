"""A message as events show it: enough to act on, and no outbound body."""

from typing import Any

from mailboxes.models import Message
from mailboxes.services import render_instant


def message_summary(message: Message) -> dict[str, Any]:
    """Return the summary of REST contract, section 5.2; never its text or HTML."""
    sender = {"address": message.from_address, "name": message.from_name}
    return {
        "id": message.public_id,
        "thread_id": message.thread.public_id,
        "direction": message.direction,
        "status": message.status,
        "from": sender if message.from_address else None,
        "to": message.to_addrs,
        "cc": message.cc_addrs,
        "delivered_to": message.delivered_to,
        "is_primary_recipient": message.is_primary_recipient,
        "subject": message.subject,
        "sent_at": render_instant(message.sent_at) if message.sent_at else None,
        "received_at": render_instant(message.received_at),
        "kind": message.kind,
        "labels": sorted(message.labels.values_list("label", flat=True)),
        "in_reply_to": message.in_reply_to,
        "flags": message.flags,
    }
