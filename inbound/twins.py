"""Whether a message is in the mailbox already (mailboxes, section 4.3, steps 2 and 3).

Read under the mailbox's lock; joins the caller's transaction.
"""

from collections.abc import Sequence

from inbound.letter import Letter
from mailboxes.models import Message
from mailboxes.statuses import Direction

CONFLICT = "message_id_conflict"


def is_duplicate(letter: Letter, *, identity_id: str) -> bool:
    """Tell whether the same octets, or the same mail under its id, stand here."""
    received = Message.objects.filter(
        identity_id=identity_id, direction=Direction.INBOUND
    )
    if received.filter(raw_sha256=letter.raw_sha256).exists():
        return True
    return any(_is_same(letter, other) for other in twins_of(letter, identity_id))


def twins_of(letter: Letter, identity_id: str) -> Sequence[Message]:
    """Return received messages that have the same real Message-ID."""
    if letter.mail.message_id is None:
        return []
    found = Message.objects.filter(
        identity_id=identity_id,
        direction=Direction.INBOUND,
        rfc_message_id=letter.mail.message_id,
    )
    return list(found.order_by("key"))


def _is_same(letter: Letter, other: Message) -> bool:
    files = other.attachments.order_by("part_index").values_list("sha256", flat=True)
    return (
        letter.mail.subject == (other.subject or "")
        and letter.bodies.text == other.text
        and letter.bodies.html == other.html_sanitized
        and [stored.sha256 for stored in letter.files] == list(files)
    )
