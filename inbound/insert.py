"""The rows of a received message and of its files."""

from datetime import datetime, timedelta
from typing import Final

from core.addresses import domain_of, org_domain
from inbound.arrival import Destination, is_primary
from inbound.judging import LOOPBACK, Judged
from inbound.letter import Letter
from inbound.selectors import holders_of
from mailboxes.models import Attachment, Message, Thread
from mailboxes.recipients import Party
from mailboxes.statuses import Direction

OLDEST_DATE: Final = timedelta(days=3653)
NEWEST_DATE: Final = timedelta(days=1)
"""A Date outside these bounds around now says nothing of when it was sent."""


def insert_letter(
    letter: Letter,
    destination: Destination,
    judged: Judged,
    thread: Thread,
    *,
    flags: list[str],
    now: datetime,
) -> Message:
    """Write the row of a message and those of its files; joins the caller's."""
    mail, bodies = letter.mail, letter.bodies
    sender = mail.sender
    holders = holders_of(
        [party.address for party in mail.named], tenant_id=destination.tenant_id
    )
    message = Message.objects.create(
        public_id=letter.message_id,
        tenant_id=destination.tenant_id,
        identity_id=destination.identity_id,
        thread=thread,
        direction=Direction.INBOUND,
        status=judged.status,
        kind=judged.looks.kind,
        rfc_message_id=letter.rfc_message_id,
        message_id_synthetic=mail.message_id is None,
        in_reply_to=mail.in_reply_to[0] if mail.in_reply_to else None,
        ref_ids=list(mail.references),
        raw_sha256=letter.raw_sha256,
        raw_key=letter.raw_key,
        raw_size=letter.raw_size,
        from_address=sender.address if sender else None,
        from_name=sender.name if sender else None,
        sender_domain=org_domain(domain_of(sender.address)) if sender else None,
        reply_to=[person(party) for party in mail.reply_to],
        to_addrs=[person(party) for party in mail.to],
        cc_addrs=[person(party) for party in mail.cc],
        delivered_to=judged.delivered_to,
        is_bcc=judged.is_bcc,
        is_primary_recipient=is_primary(destination.identity_id, mail.named, holders),
        subject=mail.subject,
        text=bodies.text,
        html_sanitized=bodies.html,
        extracted_text=bodies.extracted_text,
        snippet=bodies.snippet,
        sent_at=_sent_at(mail.date, now=now),
        received_at=now,
        automated=judged.looks.automated,
        auth={"source": LOOPBACK},
        verdict=judged.verdict,
        known_sender=judged.is_known_sender,
        flags=flags,
    )
    Attachment.objects.bulk_create(_files(letter, message))
    return message


def _files(letter: Letter, message: Message) -> list[Attachment]:
    return [
        Attachment(
            id=stored.id,
            tenant_id=message.tenant_id,
            message=message,
            part_index=stored.file.index,
            filename=stored.file.filename,
            content_type=stored.file.content_type,
            size=len(stored.file.content),
            sha256=stored.sha256,
            disposition=stored.file.disposition,
            content_id=stored.file.content_id,
            object_key=stored.key,
            text_status="skipped",
            sniffed_type=stored.judged.sniffed_type,
            risk=stored.judged.risk,
        )
        for stored in letter.files
    ]


def _sent_at(date: datetime | None, *, now: datetime) -> datetime | None:
    if date is None or not now - OLDEST_DATE <= date <= now + NEWEST_DATE:
        return None
    return date


def person(party: Party) -> dict[str, str | None]:
    """Return somebody as a row holds them."""
    return {"address": party.address, "name": party.name}
