"""Writing a message into a mailbox: its thread, its row, and what stands beside it.

Mailboxes, sections 3.4 and 4.3, steps 5 to 8. All of it joins the caller's transaction,
which holds the mailbox; the lock of a mailbox guards its threads.
"""

from datetime import datetime
from typing import Any, Final

from core.addresses import domain_of
from core.database import execute, fetch_one
from core.ids import new_id
from core.text import cut_utf8
from inbound.arrival import Destination
from inbound.insert import insert_letter, person
from inbound.judging import Judged, flags_of, judge
from inbound.letter import Letter
from inbound.selectors import webhook_text_bytes
from inbound.twins import CONFLICT, twins_of
from mailboxes.models import Attachment, Message, Thread
from mailboxes.recipients import Party, participants
from mailboxes.services import NewEvent, publish
from mailboxes.statuses import MessageStatus
from mailboxes.summaries import message_summary
from mailboxes.trust import trust_of
from quota.usage_services import count_inbound

_CONTACT: Final = """
INSERT INTO contacts (identity_id, tenant_id, address, name, domain, first_seen_at,
                      last_seen_at, inbound_count, last_thread_pk)
VALUES (%(identity)s, %(tenant)s, %(address)s, %(name)s, %(domain)s, %(now)s, %(now)s,
        1, %(thread)s)
ON CONFLICT (identity_id, address) DO UPDATE
   SET inbound_count = contacts.inbound_count + 1,
       last_seen_at = EXCLUDED.last_seen_at,
       name = coalesce(EXCLUDED.name, contacts.name),
       last_thread_pk = EXCLUDED.last_thread_pk
"""
CONTACT_LIMIT: Final = 254


def file_letter(
    letter: Letter, destination: Destination, *, is_own_tenant: bool, now: datetime
) -> None:
    """Write a message down; tell clients that it came, if anybody is shown it."""
    judged = judge(letter, destination, is_own_tenant=is_own_tenant, now=now)
    thread = judged.joined.thread or _new_thread(letter, destination, now=now)
    flags = flags_of(letter, judged, is_own_tenant=is_own_tenant)
    flags += _mark_conflict(letter, destination.identity_id)
    message = insert_letter(letter, destination, judged, thread, flags=flags, now=now)
    if judged.status == MessageStatus.RECEIVED:
        _show(message, letter, destination, judged, thread, now=now)
    count_inbound(destination.tenant_id, now=now)  # last: other mailboxes wait for it


def _show(
    message: Message,
    letter: Letter,
    destination: Destination,
    judged: Judged,
    thread: Thread,
    *,
    now: datetime,
) -> None:
    """Let its correspondent, its thread and clients know of a message."""
    _count_contact(letter, destination, thread, now=now)
    _show_in_thread(letter, destination, judged, thread, now=now)
    publish(
        [_event(message, text_bytes=webhook_text_bytes(destination.tenant_id))],
        tenant_id=destination.tenant_id,
        identity_id=destination.identity_id,
        now=now,
    )


def _new_thread(letter: Letter, destination: Destination, *, now: datetime) -> Thread:
    row = fetch_one(
        "UPDATE mailbox_state SET next_thread_seq = next_thread_seq + 1"
        " WHERE identity_id = %(identity)s RETURNING next_thread_seq - 1",
        {"identity": destination.identity_id},
    )
    assert row is not None  # noqa: S101  the caller holds this row
    return Thread.objects.create(
        public_id=new_id("thr"),
        tenant_id=destination.tenant_id,
        identity_id=destination.identity_id,
        seq=row[0],
        subject=letter.mail.subject,
        first_at=now,
        last_at=now,
    )


def _show_in_thread(
    letter: Letter,
    destination: Destination,
    judged: Judged,
    thread: Thread,
    *,
    now: datetime,
) -> None:
    """Count a message in its thread, which mail brings back from the archive."""
    mail = letter.mail
    named = [*([mail.sender] if mail.sender else []), *mail.named]
    known = [Party(row["address"], row.get("name")) for row in thread.participants]
    found = participants(known, named, own=destination.addresses)
    thread.participants = [person(party) for party in found]
    thread.message_count += 1
    thread.unread_count += 1
    thread.last_at = max(thread.last_at, now)
    thread.last_inbound_at = now
    thread.subject = thread.subject or mail.subject
    thread.archived = False
    if _is_answered_from(destination, judged, thread):
        thread.reply_from_address = judged.delivered_to
    thread.save(
        update_fields=[
            "participants",
            "message_count",
            "unread_count",
            "last_at",
            "last_inbound_at",
            "subject",
            "archived",
            "reply_from_address",
        ]
    )


def _is_answered_from(destination: Destination, judged: Judged, thread: Thread) -> bool:
    """Tell whether answers leave from where this mail came to (section 3.7)."""
    if judged.is_bcc:
        return False
    is_platform = any(
        own.is_platform for own in destination.own if own.address == judged.delivered_to
    )
    came_back = judged.joined.has_token and is_platform and thread.fallback_pinned
    return not came_back


def _mark_conflict(letter: Letter, identity_id: str) -> list[str]:
    """Mark messages that say different things under one Message-ID; all of them."""
    twins = twins_of(letter, identity_id)
    for twin in twins:
        if CONFLICT not in twin.flags:
            Message.objects.filter(key=twin.key).update(flags=[*twin.flags, CONFLICT])
    return [CONFLICT] if twins else []


def _count_contact(
    letter: Letter, destination: Destination, thread: Thread, *, now: datetime
) -> None:
    sender = letter.mail.sender
    if sender is None or len(sender.address) > CONTACT_LIMIT:
        return
    execute(
        _CONTACT,
        {
            "identity": destination.identity_id,
            "tenant": destination.tenant_id,
            "address": sender.address,
            "name": sender.name,
            "domain": domain_of(sender.address),
            "now": now,
            "thread": thread.key,
        },
    )


def _event(message: Message, *, text_bytes: int) -> NewEvent:
    text = (message.extracted_text or "").encode()
    is_cut = len(text) > text_bytes or "body_truncated" in message.flags
    return NewEvent(
        "message.received",
        {
            "message": message_summary(message),
            "thread_id": message.thread.public_id,
            "trust": trust_of(message),
            "extracted_text": cut_utf8(text, text_bytes).decode() or None,
            "extracted_text_truncated": is_cut,
            "attachments": [_attachment(row) for row in message.attachments.all()],
        },
    )


def _attachment(row: Attachment) -> dict[str, Any]:
    return {
        "id": row.id,
        "filename": row.filename,
        "content_type": row.content_type,
        "size": row.size,
        "disposition": row.disposition,
    }
