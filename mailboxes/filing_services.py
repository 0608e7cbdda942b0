"""Filing mail: its labels, whether it was read, whether it is out of the way.

Under the mailbox's row, like every change of a mailbox: two readers cannot leave a
thread with a count of unread mail that its messages do not have.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from core.database import execute, fetch_one
from core.errors import InvalidRequest
from mailboxes.labels import LABELS_LIMIT
from mailboxes.mail_selectors import message_among, seen_messages, seen_thread
from mailboxes.models import Message, Thread
from mailboxes.services import audit, lock_identity
from mailboxes.statuses import Direction


@dataclass(frozen=True, slots=True)
class Filing:
    """What changes in how mail is filed; None leaves things as they are."""

    add: Sequence[str] = ()
    remove: Sequence[str] = ()
    read: bool | None = None
    archived: bool | None = None


@transaction.atomic(durable=True)
def file_message(
    identity_id: str, message_id: str, filing: Filing, *, actor_key_id: str
) -> None:
    """Change the labels of a message, and whether it was read.

    Raises IdentityNotFound, MessageNotFound, and InvalidRequest for too many labels, or
    for one of our own messages that is to be unread.
    """
    lock_identity(identity_id)
    columns = ("thread_id", "tenant_id", "direction")
    message = message_among(seen_messages(identity_id).only(*columns), message_id)
    if filing.read is False and message.direction == Direction.OUTBOUND:
        raise InvalidRequest.at("read", "Only received mail can be unread.")
    if _file([message.key], message.thread_id, filing, tenant_id=message.tenant_id):
        _audit("message", message_id, filing, message.tenant_id, actor_key_id)


@transaction.atomic(durable=True)
def file_thread(
    identity_id: str, thread_id: str, filing: Filing, *, actor_key_id: str
) -> None:
    """Say it of every message of a thread that may be seen; archive the thread, or not.

    Raises IdentityNotFound, ThreadNotFound, and InvalidRequest when a message had too
    many labels.
    """
    lock_identity(identity_id)
    thread = seen_thread(identity_id, thread_id)
    found = seen_messages(identity_id).filter(thread=thread)
    keys = list(found.values_list("key", flat=True))
    changed = _file(keys, thread.key, filing, tenant_id=thread.tenant_id)
    if filing.archived is not None:
        other = Thread.objects.filter(key=thread.key, archived=not filing.archived)
        changed += other.update(archived=filing.archived)
    if changed:
        _audit("thread", thread_id, filing, thread.tenant_id, actor_key_id)


def _file(
    keys: Sequence[int], thread_key: int, filing: Filing, *, tenant_id: str
) -> int:
    """File messages of one thread; return how many rows that changed."""
    changed = _label(keys, filing, tenant_id=tenant_id)
    if filing.read is not None and (marked := _mark(keys, read=filing.read)):
        _count_unread(thread_key)
        changed += marked
    return changed


def _label(keys: Sequence[int], filing: Filing, *, tenant_id: str) -> int:
    parameters: Mapping[str, Any] = {
        "keys": list(keys),
        "tenant": tenant_id,
        "add": list(filing.add),
        "remove": list(filing.remove),
        "limit": LABELS_LIMIT,
    }
    changed = 0
    if filing.remove:
        changed += execute(
            "DELETE FROM labels"
            " WHERE message_pk = ANY(%(keys)s) AND label = ANY(%(remove)s)",
            parameters,
        )
    if filing.add:
        changed += execute(
            "INSERT INTO labels (message_pk, tenant_id, label)"
            " SELECT m.key, %(tenant)s, w.word FROM unnest(%(keys)s::bigint[]) m(key),"
            " unnest(%(add)s::text[]) w(word) ON CONFLICT DO NOTHING",
            parameters,
        )
        over = fetch_one(
            "SELECT 1 FROM labels WHERE message_pk = ANY(%(keys)s)"
            " GROUP BY message_pk HAVING count(*) > %(limit)s LIMIT 1",
            parameters,
        )
        if over is not None:
            raise InvalidRequest.at(
                "labels_add", f"A message would have more than {LABELS_LIMIT} labels."
            )
    return changed


def _mark(keys: Sequence[int], *, read: bool) -> int:
    received = Message.objects.filter(key__in=keys, direction=Direction.INBOUND)
    return received.filter(read=not read).update(read=read)


def _count_unread(thread_key: int) -> None:
    execute(
        "UPDATE threads t SET unread_count = (SELECT count(*) FROM messages m"
        " WHERE m.thread_pk = t.pk AND m.status = 'received' AND NOT m.read)"
        " WHERE t.pk = %(thread)s",
        {"thread": thread_key},
    )


def _audit(
    target: str, target_id: str, filing: Filing, tenant_id: str, actor_key_id: str
) -> None:
    audit(
        f"{target}.file",
        tenant_id=tenant_id,
        target_type=target,
        target_id=target_id,
        details={
            "labels_added": len(filing.add),
            "labels_removed": len(filing.remove),
            "read": filing.read,
            "archived": filing.archived,
        },
        actor_key_id=actor_key_id,
    )
