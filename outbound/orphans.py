"""Objects of sends that were never accepted: what a crash before the commit leaves.

Looked for in turns of a bounded listing; each run goes on where the last one stopped.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

import structlog

from core import metrics, objects
from mailboxes.models import Attachment, Message
from outbound.models import ObjectSweep
from outbound.restored import CopyName

AGE: Final = timedelta(days=15)
"""How long an object stays that no row names; a submit is over within a minute."""
LIMIT: Final = 5000
"""Keys that one run lists."""
NAME: Final = "sent copies"


def sweep_objects(*, now: datetime, limit: int = LIMIT) -> int:
    """Delete old sent copies and attachments that no row names; return how many.

    Only what a send has written is looked at, never mail that came in. Safe to repeat
    and to run twice at once. Raises ObjectStoreAway; the next run lists the same again.
    """
    sweep, _ = ObjectSweep.objects.get_or_create(name=NAME)
    listed = objects.listing(after=sweep.cursor, limit=limit)
    old = [CopyName.of(key) for key, stored_at in listed if now - stored_at > AGE]
    orphans = _unnamed([name for name in old if name is not None])
    for orphan in orphans:
        objects.delete(orphan)
        metrics.count(metrics.OBJECTS_ORPHANED_DELETED)
    cursor = listed[-1][0] if len(listed) == limit else ""
    ObjectSweep.objects.filter(name=NAME).update(cursor=cursor)
    if orphans:
        structlog.get_logger().info("objects.orphans_deleted", count=len(orphans))
    return len(orphans)


def _unnamed(names: Iterable[CopyName]) -> list[str]:
    """Return the keys that neither a message nor an attachment names.

    Found by the ids in the keys; a file also stays while its message stands.
    """
    names = list(names)
    messages = Message.objects.filter(public_id__in={n.message_id for n in names})
    files = Attachment.objects.filter(
        id__in={n.attachment_id for n in names if n.attachment_id}
    )
    standing = set(messages.values_list("public_id", flat=True))
    kept = set(files.values_list("object_key", flat=True))
    return [n.key for n in names if n.message_id not in standing and n.key not in kept]
