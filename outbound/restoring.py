"""After a restore: the sends that the database has forgotten, from their sent copies.

A send whose row is gone, and one that stands queued as it did at that moment, may have
left since. Both become ``uncertain``, so nothing sends them again; their keys answer
with what was accepted. One transaction a message: whoever stops it begins again.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

import structlog
from django.db import connection, transaction
from django.db.models import F, Func, Value

from core import objects
from core.clock import database_now
from core.database import fetch_one
from core.errors import IdempotencyConflict, IdentityNotFound
from core.ids import new_id
from core.points import reach
from core.sweeps import one_by_one
from delivery.changes import lock_message, message_held
from delivery.models import OutboundState
from mailboxes.models import Message
from mailboxes.recipients import Party
from mailboxes.statuses import MessageStatus
from outbound import ledger
from outbound.insert import insert_send
from outbound.plan import PlannedThread, SendPlan
from outbound.restored import (
    CopyName,
    CopyUnreadable,
    LostSend,
    read_lost,
    rebuilt_files,
    rebuilt_message,
    rebuilt_plan,
    slot_of,
)
from outbound.serializers import Json, accepted_message
from outbound.services import Stale, lock_mailbox
from outbound.settling import lapse

SLACK: Final = timedelta(minutes=2)
"""How long before its commit a copy may have been written.

A submit takes up to 30 s, and the store's clock is not the database's.
"""
BATCH: Final = 500
FILES: Final = 40
"""Keys asked for at once where a message's files stand; few have more than one."""
REPROCESSED: Final = "reprocessed"
"""The flag of a message that was made from its sent copy."""

log = structlog.get_logger()


class Ending(StrEnum):
    """What became of one sent copy."""

    REBUILT = "rebuilt"
    STANDS = "stands"
    SUPERSEDED = "superseded"
    OWNER_GONE = "owner gone"
    UNREADABLE = "unreadable"
    FAILED = "failed"


Told = Callable[[Ending, str], None]


@dataclass(frozen=True, slots=True)
class LostCopy:
    """A sent copy without a row, and when the store took it in."""

    name: CopyName
    stored_at: datetime


def lost_copies(*, since: datetime) -> list[LostCopy]:
    """Return the sent copies since then whose message has no row, oldest first.

    Raises ObjectStoreAway.
    """
    found: list[LostCopy] = []
    for page in _pages():
        names = [(CopyName.of(key), stored_at) for key, stored_at in page]
        copies = [
            LostCopy(name, stored_at)
            for name, stored_at in names
            if name and not name.attachment_id and stored_at >= since - SLACK
        ]
        ids = [copy.name.message_id for copy in copies]
        stored = Message.objects.filter(public_id__in=ids)
        standing = set(stored.values_list("public_id", flat=True))
        found += [copy for copy in copies if copy.name.message_id not in standing]
    return sorted(found, key=lambda copy: (copy.stored_at, copy.name.key))


def rebuild(copies: list[LostCopy], *, told: Told) -> Counter[Ending]:
    """Rebuild each copy's message and ledger row; return how many ended how.

    Of two copies under one key the later was accepted: the earlier is what a refused
    request could not take away. ``told`` hears of each. Raises ObjectStoreAway.
    """
    endings: Counter[Ending] = Counter()
    last = _last_of_each_key(copies)
    for copy in copies:
        ending = _ending(copy, last)
        endings[ending] += 1
        told(ending, copy.name.key)
        reach("restore.message_done")
    return endings


def doubt_queued() -> tuple[int, int]:
    """Make every send that stands queued uncertain; return how many, and how many not.

    For a restored database before its workers start: nobody knows which of these have
    left since. One transaction each.
    """
    ids = OutboundState.objects.order_by("pk").values_list(
        "message__public_id", flat=True
    )
    doubted = one_by_one("restore.doubt", list(ids), _doubt)
    return doubted, OutboundState.objects.count()


def _pages() -> Iterator[list[tuple[str, datetime]]]:
    after = ""
    while page := objects.listing(after=after, limit=BATCH):
        yield page
        after = page[-1][0]


def _last_of_each_key(copies: list[LostCopy]) -> dict[tuple[str, str], str]:
    last = {}
    for copy in copies:
        try:
            slot = slot_of(copy.name, objects.metadata(copy.name.key))
        except (CopyUnreadable, objects.ObjectMissing):
            continue  # told of when its turn comes
        last[slot.identity_id, slot.key_hash] = copy.name.message_id
    return last


def _ending(copy: LostCopy, last: dict[tuple[str, str], str]) -> Ending:
    key = copy.name.key
    try:
        lost = read_lost(copy.name, objects.get(key), objects.metadata(key))
    except (CopyUnreadable, objects.ObjectMissing) as error:
        name = copy.name.message_id
        log.warning("sent_copy.unreadable", message_id=name, exc_info=error)
        return Ending.UNREADABLE
    place = (lost.slot.identity_id, lost.slot.key_hash)
    if last.get(place, copy.name.message_id) != copy.name.message_id:
        return Ending.SUPERSEDED
    # the mail's Date is the submit's
    accepted_at = lost.mail.date or copy.stored_at
    contents = _contents(copy.name)
    try:
        return _rebuild(lost, contents, accepted_at=accepted_at)
    except IdentityNotFound:
        return Ending.OWNER_GONE
    except Exception as error:  # one that cannot be inserted must not stop the rest
        if not connection.is_usable():
            raise
        name = copy.name.message_id
        log.warning("sent_copy.not_rebuilt", message_id=name, exc_info=error)
        return Ending.FAILED


def _contents(name: CopyName) -> dict[str, bytes]:
    """Return the attachments' bytes that are there, by id."""
    folder = f"t/{name.tenant_id}/i/{name.identity_id}/out/{name.message_id}/a/"
    found: dict[str, bytes] = {}
    after = folder.rstrip("/")
    while page := objects.listing(after=after, limit=FILES):
        for key, _ in page:
            if not key.startswith(folder):
                return found
            found[key.removeprefix(folder)] = objects.get(key)
        after = page[-1][0]
    return found


@transaction.atomic(durable=True)
def _rebuild(
    lost: LostSend, contents: dict[str, bytes], *, accepted_at: datetime
) -> Ending:
    """Insert all rows of a send that was accepted, and leave it in doubt."""
    ledger.wait_for_key(lost.slot)
    if Message.objects.filter(public_id=lost.name.message_id).exists():
        return Ending.STANDS
    if _is_taken(lost):
        return Ending.SUPERSEDED
    _check_owner(lost.name)
    thread = _thread_of(lost)
    files = rebuilt_files(lost, contents)
    plan = rebuilt_plan(lost, thread, files, accepted_at=accepted_at)
    seq, now = _thread_number(plan)
    _insert(plan, lost, seq=seq)
    _leave_in_doubt(lost.name.message_id, accepted_at=accepted_at, now=now)
    return Ending.REBUILT


def _is_taken(lost: LostSend) -> bool:
    """Tell whether the key stands for another, or for this one, deleted since."""
    try:
        if ledger.find_replay(lost.slot) is not None:
            return True
    except IdempotencyConflict:
        return True
    return (
        fetch_one(
            "SELECT 1 FROM idempotency WHERE message_id = %(message)s",
            {"message": lost.name.message_id},
        )
        is not None
    )


def _check_owner(name: CopyName) -> None:
    """Raise IdentityNotFound unless the identity is there, and is this tenant's."""
    found = fetch_one(
        "SELECT 1 FROM identities WHERE id = %(identity)s AND tenant_id = %(tenant)s",
        {"identity": name.identity_id, "tenant": name.tenant_id},
    )
    if found is None:
        raise IdentityNotFound("No such identity.")


def _thread_of(lost: LostSend) -> PlannedThread:
    """Return the thread that the copy names, or that of a message that it answers."""
    thread_id = lost.thread_id or new_id("thr")
    named = [lost.mail.message_id, *lost.mail.in_reply_to, *lost.mail.references]
    row = fetch_one(
        "SELECT t.pk, t.id, t.participants FROM threads t"
        " WHERE t.identity_id = %(identity)s AND (t.id = %(thread)s OR t.pk IN"
        "   (SELECT m.thread_pk FROM messages m WHERE m.identity_id = %(identity)s"
        "      AND m.rfc_message_id = ANY(%(named)s::text[])))"
        " ORDER BY t.id = %(thread)s DESC, t.last_at DESC LIMIT 1",
        {
            "identity": lost.name.identity_id,
            "thread": thread_id,
            "named": [id_ for id_ in named if id_],
        },
    )
    people = tuple(dict.fromkeys(lost.mail.named))
    if row is None:
        return PlannedThread(thread_id, None, lost.thread_seq, None, people)
    known = [Party(who["address"], who["name"]) for who in json.loads(row[2])]
    known += [p for p in people if p.address not in {who.address for who in known}]
    return PlannedThread(row[1], row[0], None, None, tuple(known))


def _thread_number(plan: SendPlan) -> tuple[int, datetime]:
    """Lock the mailbox; the thread gets its own number unless another has it."""
    seq, now = lock_mailbox(plan)
    if isinstance(seq, Stale):
        plan = replace(plan, thread=replace(plan.thread, seq=None))
        seq, now = lock_mailbox(plan)
    if isinstance(seq, Stale):
        raise RuntimeError("a thread without a wish for a number got none")
    return seq, now


def _insert(plan: SendPlan, lost: LostSend, *, seq: int) -> None:
    composed = rebuilt_message(lost)
    answer = accepted_message(
        plan, rfc_message_id=composed.rfc_message_id, now=plan.now
    )
    is_new = insert_send(
        plan,
        composed,
        lost.slot,
        thread_seq=seq,
        response=_in_doubt(answer),
        cap_day=None,
        now=plan.now,
        is_history=True,
    )
    if not is_new:
        raise RuntimeError(f"the key of {plan.message_id} was taken under its lock")


def _in_doubt(answer: Json) -> Json:
    """Return the answer as its row now stands."""
    doubt = str(MessageStatus.UNCERTAIN)
    deliveries = [{**delivery, "status": doubt} for delivery in answer["deliveries"]]
    flags = [*answer["flags"], REPROCESSED]
    return {**answer, "status": doubt, "deliveries": deliveries, "flags": flags}


def _leave_in_doubt(message_id: str, *, accepted_at: datetime, now: datetime) -> None:
    added = Func(F("flags"), Value(REPROCESSED), function="array_append")
    Message.objects.filter(public_id=message_id).update(flags=added)
    _lapse(message_id, since=accepted_at, now=now)


@transaction.atomic(durable=True)
def _doubt(message_id: str) -> bool:
    if lock_message(message_id) is None:
        return False
    return _lapse(message_id, since=None, now=database_now())


def _lapse(message_id: str, *, since: datetime | None, now: datetime) -> bool:
    """End a queued send as if its worker had been lost; the mailbox is held."""
    message = message_held(message_id)
    state = OutboundState.objects.filter(message__public_id=message_id).first()
    if message is None or state is None:
        return False
    # what providers said since then may be about this send
    state.claimed_at = state.claimed_at or since or message.received_at
    lapse(message, state, now=now)
    return True
