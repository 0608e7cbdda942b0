"""The end of deleted identities: when nothing of theirs waits to be sent any more."""

from typing import Final

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet

from core.clock import database_now
from core.sweeps import one_by_one
from mailboxes.identity_services import note_deleted
from mailboxes.models import Identity, Message
from mailboxes.services import lock_mailbox
from mailboxes.statuses import IdentityStatus, MessageStatus

SWEEP_BATCH: Final = 500


def finish_deletions() -> int:
    """End each identity that is being deleted and has nothing queued; return how many.

    A message is queued until its claim has ended, too. Its user name is free then.
    """
    ids = list(
        _done().order_by("updated_at").values_list("id", flat=True)[:SWEEP_BATCH]
    )
    return one_by_one("identity_deletion", ids, _finish_one)


@transaction.atomic(durable=True)
def _finish_one(identity_id: str) -> bool:
    lock_mailbox(identity_id)
    now = database_now()
    done = _done().filter(id=identity_id)
    if not done.update(status=IdentityStatus.DELETED, updated_at=now):
        return False
    note_deleted(Identity.objects.get(id=identity_id), now=now)
    return True


def _done() -> QuerySet[Identity]:
    queued = Message.objects.filter(
        identity_id=OuterRef("id"), direction="outbound", status=MessageStatus.QUEUED
    )
    return Identity.objects.filter(~Exists(queued), status=IdentityStatus.DELETING)
