"""Mail that came in, for tests that answer it: from factories until mail comes in."""

from datetime import UTC, datetime
from typing import Any

from django.db.models import Max

from core import objects
from core.canonical import sha256_hex
from core.ids import new_id
from mailboxes.models import Attachment, Message, Thread
from mailboxes.statuses import UNSEEN, Direction, MessageKind, MessageStatus
from tests.factories import MessageFactory, ThreadFactory

SENT_AT = datetime(2026, 9, 14, 8, 12, tzinfo=UTC)


def received(identity: Any, thread: Thread | None = None, **changes: Any) -> Message:
    """Return a message that somebody wrote to this identity."""
    if thread is None:
        thread = ThreadFactory.create(
            identity=identity, seq=Thread.objects.filter(identity=identity).count() + 1
        )
        identity.mailbox.next_thread_seq = thread.seq + 1
        identity.mailbox.save()
    given = {
        "direction": Direction.INBOUND,
        "status": MessageStatus.RECEIVED,
        "kind": MessageKind.NORMAL,
        "operation": None,
        "from_address": "jo@example.net",
        "from_name": "Jo",
        "subject": "Re: Your booking",
        "text": "Is Friday fine?",
        "rfc_message_id": f"{new_id('msg')}@example.net",
        "raw_key": None,
        "sent_at": SENT_AT,
        "to_addrs": named("bookings@acme.example"),
    }
    return MessageFactory.create(thread=thread, **(given | changes))


def counted(thread: Thread) -> Thread:
    """Return the thread as ingest leaves it: its columns say what its messages are."""
    seen = thread.messages.exclude(status__in=UNSEEN).order_by("received_at")
    times = {
        way: seen.filter(direction=way).aggregate(at=Max("received_at"))["at"]
        for way in Direction
    }
    Thread.objects.filter(key=thread.key).update(
        message_count=seen.count(),
        unread_count=seen.filter(direction=Direction.INBOUND, read=False).count(),
        last_at=max(at for at in (*times.values(), thread.first_at) if at),
        last_inbound_at=times[Direction.INBOUND],
        last_outbound_at=times[Direction.OUTBOUND],
    )
    thread.refresh_from_db()
    return thread


def named(*addresses: str) -> list[dict[str, str | None]]:
    """Return addresses as a message's row holds them."""
    return [{"address": address, "name": None} for address in addresses]


def with_file(
    message: Message, content: bytes = b"%PDF-1.7", **changes: Any
) -> Attachment:
    """Give a message a file, its bytes in the object store."""
    id_ = new_id("att")
    key = f"t/{message.tenant_id}/i/{message.identity_id}/m/{message.public_id}/a/{id_}"
    objects.put(key, content, metadata={})
    given = {
        "id": id_,
        "tenant": message.tenant,
        "message": message,
        "part_index": message.attachments.count(),
        "filename": "invoice.pdf",
        "content_type": "application/pdf",
        "size": len(content),
        "sha256": sha256_hex(content),
        "disposition": "attachment",
        "object_key": key,
    }
    return Attachment.objects.create(**(given | changes))
