"""The bytes of attachments and messages: for a key, an attachment's for a link too."""

from dataclasses import dataclass, field
from typing import Final

from core import objects
from core.clock import database_now
from core.ids import is_id
from mailboxes.keyring_services import verifying_key
from mailboxes.mail_selectors import message_among, seen_messages
from mailboxes.models import Attachment, Identity
from mailboxes.statuses import UNSEEN, IdentityStatus, KeyPurpose
from outbound.errors import AttachmentNotFound, RawExpired
from outbound.links import read_link

GONE: Final = (IdentityStatus.DELETING, IdentityStatus.DELETED)
"""A link is held by others: nobody takes it back when its mailbox is being erased."""
OPAQUE: Final = "application/octet-stream"
RFC822: Final = "message/rfc822"
_SIGNATURES: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
)
SERVED_TYPES: Final = (OPAQUE, *dict.fromkeys(kind for _, kind in _SIGNATURES))
"""The types that a file is handed out as."""


@dataclass(frozen=True, slots=True)
class ServedFile:
    """A file as it is handed out; the type is one that no browser runs."""

    filename: str
    content_type: str
    content: bytes = field(repr=False)


def attachment_of(identity_id: str, message_id: str, attachment_id: str) -> ServedFile:
    """Return a file of a message in a mailbox; raises AttachmentNotFound."""
    if not is_id(message_id, "msg") or not is_id(attachment_id, "att"):
        raise AttachmentNotFound("No such attachment.")
    found = (
        Attachment.objects.filter(
            id=attachment_id,
            risk__isnull=True,
            message__public_id=message_id,
            message__identity_id=identity_id,
        )
        .exclude(message__status__in=UNSEEN)
        .exclude(scan_status="infected")
        .first()
    )
    if found is None:
        raise AttachmentNotFound("No such attachment.")
    try:
        content = objects.get(found.object_key)
    except objects.ObjectMissing:
        raise AttachmentNotFound("No such attachment.") from None
    return ServedFile(found.filename or "file", safe_type(content), content)


def raw_of(identity_id: str, message_id: str) -> ServedFile:
    """Return a message as it was sent, but for Bcc, or as it came in.

    Raises MessageNotFound, RawExpired once the bytes are gone, ObjectStoreAway.
    """
    known = seen_messages(identity_id).only("raw_key", "public_id")
    message = message_among(known, message_id)
    if message.raw_key is None:
        raise RawExpired("The raw form of this message is no longer kept.")
    try:
        content = objects.get(message.raw_key)
    except objects.ObjectMissing:
        raise RawExpired("The raw form of this message is no longer kept.") from None
    return ServedFile(f"{message.public_id}.eml", RFC822, content)


def linked_file(token: str) -> ServedFile:
    """Return the file that a signed link is good for.

    Raises AttachmentNotFound, alike for a broken, forged or expired link and for a file
    that is gone.
    """
    now = database_now()
    target = read_link(
        token, key_of=lambda kid: verifying_key(KeyPurpose.LINK, kid, now=now), now=now
    )
    if target is None or _is_leaving(target.identity_id):
        raise AttachmentNotFound("No such attachment.")
    return attachment_of(target.identity_id, target.message_id, target.attachment_id)


def _is_leaving(identity_id: str) -> bool:
    return Identity.objects.filter(id=identity_id, status__in=GONE).exists()


def safe_type(content: bytes) -> str:
    """Return the type that the bytes show, if it is one that may be shown; else opaque.

    What the sender declared counts for nothing: HTML must never be served as such.
    """
    for start, kind in _SIGNATURES:
        if content.startswith(start):
            return kind
    return OPAQUE
