"""Accepting a send exactly once: the one transaction of the request half.

Locks in order: the key (advisory), the mailbox row, the quota row. No row lock is held
while the sent copy is written (architecture section 3).
"""

from collections.abc import Callable
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
from core.errors import Unavailable
from core.points import reach
from outbound import bell, ledger
from outbound.compose import ComposedMessage
from outbound.insert import insert_send
from outbound.ledger import Accepted, Slot
from outbound.plan import SendPlan
from outbound.sent_copy import SentCopy
from outbound.serializers import accepted_message
from quota.services import reserve

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


def accept(plan: SendPlan, composed: ComposedMessage, slot: Slot) -> Accepted:
    """Record the send exactly once: lock the mailbox, reserve, insert.

    Joins the caller's transaction, which holds the key. Behind a savepoint: whatever
    another transaction did to ours frees the row locks and keeps the key. Raises
    Unavailable when that happens twice.
    """
    for _ in range(TRIES):
        savepoint = transaction.savepoint()
        try:
            message = _insert(plan, composed, slot)
        except (IntegrityError, OperationalError) as error:
            if sqlstate(error) not in PASSING:
                raise
            log.warning("submit.collided", exc_info=error)
            message = None
        if message is not None:
            return Accepted(message, deduplicated=False)
        transaction.savepoint_rollback(savepoint)
        if (earlier := ledger.find_replay(slot)) is not None:
            return earlier
    raise Unavailable("The mailbox is busy.", details={"reason": "mailbox_busy"})


def _insert(
    plan: SendPlan, composed: ComposedMessage, slot: Slot
) -> dict[str, object] | None:
    """Return the answer once every row stands; None if the key has a live row."""
    row = fetch_one(
        # takes the row's lock, and asks the clock when it has it
        "UPDATE mailbox_state SET next_thread_seq = next_thread_seq + 1"
        " WHERE identity_id = %(identity)s"
        " RETURNING next_thread_seq - 1, clock_timestamp()",
        {"identity": plan.identity_id},
    )
    assert row is not None  # noqa: S101  every identity has its mailbox row
    thread_seq, now = row[0], clock.to_milliseconds(row[1] + clock.offset)
    reserve(plan.tenant_id, ref=plan.message_id, units=plan.units, now=now)
    message = accepted_message(plan, rfc_message_id=composed.rfc_message_id, now=now)
    is_new = insert_send(
        plan, composed, slot, thread_seq=thread_seq, response=message, now=now
    )
    return message if is_new else None


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
