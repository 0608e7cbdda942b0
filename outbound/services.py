"""Accepting a send exactly once: the one transaction of the request half.

Locks in order: the key (advisory), the mailbox row, the quota row; a thread is guarded
by its mailbox. No row lock is held while the sent copy is written, nor while a thread
is waited for (architecture section 3).
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import structlog
from django.db import (
    Error,
    IntegrityError,
    OperationalError,
    connection,
    transaction,
)

from core import clock
from core.database import AWAY, fetch_one, sqlstate
from core.errors import IdentityNotFound, Unavailable
from core.points import reach
from mailboxes.models import Thread
from mailboxes.services import NewEvent, publish
from mailboxes.statuses import MessageKind, MessageStatus
from outbound import bell, ledger, thread_lock
from outbound.compose import ComposedMessage
from outbound.errors import AutoReplyNotAllowed
from outbound.insert import insert_send
from outbound.ledger import Accepted, Slot
from outbound.plan import SendPlan
from outbound.sent_copy import SentCopy
from outbound.serializers import accepted_message
from outbound.thread_lock import Busy, Patience, Taken
from quota.services import reserve, warning_events

TRIES: Final = 2
UNIQUE_VIOLATION, DEADLOCK, LOCK_TIMEOUT = "23505", "40P01", "55P03"
PASSING: Final = frozenset({UNIQUE_VIOLATION, DEADLOCK, LOCK_TIMEOUT})
"""What another transaction may cause: back to the savepoint, look, once more."""

log = structlog.get_logger()


def in_one_transaction(slot: Slot, work: Callable[[SentCopy], Accepted]) -> Accepted:
    """Do the work and commit it; whatever fails before leaves nothing behind.

    A ``COMMIT`` without an answer is looked up, and nothing is deleted then: the row
    may stand, and needs its copy. Raises Unavailable when nobody can tell.
    """
    copy = SentCopy()
    is_committing = False
    try:
        with transaction.atomic(durable=True):
            accepted = work(copy)
            reach("submit.inserted")
            is_committing = True
    except AWAY as error:
        log.warning("submit.interrupted", exc_info=error)
        if is_committing:
            accepted = _after_a_lost_answer(slot, copy)
        else:
            copy.discard()
            raise Unavailable("The database did not answer.") from error
    except BaseException:
        if not is_committing:
            copy.discard()
        raise
    else:
        if accepted.deduplicated:
            copy.discard()
    reach("submit.committed")
    bell.ring()
    return accepted


@dataclass(frozen=True, slots=True)
class Stale:
    """What was composed is out of date: compose again, and write the copy again.

    ``next_seq`` is the number that the mailbox's next thread would get.
    """

    next_seq: int


def accept(
    plan: SendPlan, composed: ComposedMessage, slot: Slot, *, patience: Patience
) -> Accepted | Stale:
    """Record the send exactly once: lock mailbox, reserve, lock thread, insert.

    Joins the caller's transaction, which holds the key. Behind a savepoint: whatever
    another transaction did to ours, or a thread that is busy, frees the row locks and
    keeps the key. Raises BillingLimit, DailyCapReached, ThreadBusy,
    AutoReplyNotAllowed, and Unavailable when others come between twice.
    """
    collisions = 0
    while collisions < TRIES:
        savepoint = transaction.savepoint()
        outcome = _try(plan, composed, slot)
        if isinstance(outcome, dict):
            return Accepted(outcome, deduplicated=False)
        transaction.savepoint_rollback(savepoint)
        match outcome:
            case Stale():
                return outcome
            case Busy():
                patience.wait(outcome)
            case None:
                collisions += 1
                if (earlier := ledger.find_replay(slot)) is not None:
                    return earlier
                if (stopped := _stopped(plan)) is not None:
                    return stopped
    raise Unavailable("The mailbox is busy.", details={"reason": "mailbox_busy"})


def _stopped(plan: SendPlan) -> Stale | None:
    """Return that the policy must judge anew: it would not let this sender send now."""
    row = fetch_one(
        "SELECT s.next_thread_seq FROM mailbox_state s"
        " JOIN identities i ON i.id = s.identity_id"
        " JOIN tenants t ON t.id = i.tenant_id"
        " WHERE i.id = %(identity)s AND (i.status <> 'active' OR t.status <> 'active')",
        {"identity": plan.identity_id},
    )
    return Stale(row[0]) if row is not None else None


def _try(
    plan: SendPlan, composed: ComposedMessage, slot: Slot
) -> dict[str, object] | Stale | Busy | None:
    """Insert, or tell why not: None for a live key, or what others did meanwhile."""
    try:
        return _insert(plan, composed, slot)
    except (IntegrityError, OperationalError) as error:
        if sqlstate(error) not in PASSING:
            raise
        log.warning("submit.collided", exc_info=error)
        return None


def _insert(
    plan: SendPlan, composed: ComposedMessage, slot: Slot
) -> dict[str, object] | Stale | Busy | None:
    """Return the answer once every row stands; None if the key has a live row.

    Or if identity or tenant was stopped since the policy was asked.
    """
    seq, now = lock_mailbox(plan)
    if isinstance(seq, Stale):
        return seq
    taken = reserve(
        plan.tenant_id,
        ref=plan.message_id,
        units=plan.units,
        caps=plan.caps,
        gates=plan.gates,
        now=now,
    )
    if plan.thread.key is not None:
        lock = thread_lock.take(plan.thread.key, owner=plan.message_id)
        if isinstance(lock, Busy):
            return lock
        _check_exchanges(plan, lock)
        if lock.head != plan.thread.head:
            return Stale(seq)
    message = accepted_message(plan, rfc_message_id=composed.rfc_message_id, now=now)
    is_new = insert_send(
        plan,
        composed,
        slot,
        thread_seq=seq,
        response=message,
        cap_day=taken.day,
        now=now,
    )
    if not is_new:
        return None
    publish(
        [*_suppressed(plan), *warning_events(taken)],
        tenant_id=plan.tenant_id,
        identity_id=plan.identity_id,
        now=now,
    )
    return message


def lock_mailbox(plan: SendPlan) -> tuple[int | Stale, datetime]:
    """Lock the mailbox row, and return the thread's number and the instant of now.

    A new thread whose number stands in a Reply-To has to get that number; another send
    may have taken it. Raises IdentityNotFound when the mailbox has just been closed:
    asked of this row itself, since the statement sees others as before its wait.
    Joins the caller's transaction.
    """
    wanted = plan.thread.seq if plan.thread.key is None else None
    row = fetch_one(
        # takes the row's lock, and asks the clock when it has it
        "UPDATE mailbox_state SET next_thread_seq = CASE"
        " WHEN %(wanted)s::bigint IS NULL THEN next_thread_seq + %(step)s"
        " ELSE greatest(next_thread_seq, %(wanted)s::bigint) + 1 END"
        " WHERE identity_id = %(identity)s AND NOT is_closed"
        " RETURNING next_thread_seq, clock_timestamp()",
        {
            "identity": plan.identity_id,
            "wanted": wanted,
            "step": 1 if plan.thread.key is None else 0,
        },
    )
    if row is None:
        raise IdentityNotFound("No such identity.")
    following, now = row[0], clock.to_milliseconds(row[1] + clock.offset)
    if plan.thread.key is not None:
        return following, now
    seq = following - 1 if wanted is None else wanted
    if seq != following - 1 and _is_numbered(plan.identity_id, seq):
        return Stale(following), now
    return seq, now


def _is_numbered(identity_id: str, seq: int) -> bool:
    return Thread.objects.filter(identity_id=identity_id, seq=seq).exists()


def _check_exchanges(plan: SendPlan, lock: Taken) -> None:
    """Count automatic replies again: another may have come while this one waited."""
    if plan.kind == MessageKind.AUTO_REPLY and lock.exchanges >= plan.most_exchanges:
        raise AutoReplyNotAllowed("The thread has had its automatic replies.")


def _suppressed(plan: SendPlan) -> list[NewEvent]:
    if plan.status != MessageStatus.SUPPRESSED:
        return []
    recipients = sorted(recipient.address for recipient in plan.recipients)
    data = {"message_id": plan.message_id, "recipients": recipients}
    return [NewEvent("message.suppressed", data)]


def _after_a_lost_answer(slot: Slot, copy: SentCopy) -> Accepted:
    """Find out, on a new connection, whether the transaction took effect.

    The key is granted once the first transaction is over.
    """
    connection.close()
    try:
        with transaction.atomic(durable=True):
            ledger.wait_for_key(slot)
            found = ledger.find_replay(slot)
    except Error as error:
        log.warning("submit.doubtful", exc_info=error)
        found = None
    if found is None:
        raise Unavailable("The database did not confirm the send.")
    is_ours = found.message["id"] == copy.message_id
    return Accepted(found.message, deduplicated=not is_ours)
