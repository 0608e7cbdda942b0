"""What follows from a test tenant's accepted call: rows that are due, and nothing else.

They stand in the transaction that records the call, so a crash neither loses a copy nor
makes two: each row is unique by message and recipient. Another mailbox is never touched
here; its own transaction takes the copy in (architecture, section 3, "Locks").
"""

from datetime import datetime, timedelta
from typing import Final

from delivery import inbox
from delivery.statuses import DeliveryStatus
from inbound.queue import queue_copies
from mailboxes.models import Message
from outbound.outcomes import Outcome
from outbound.transports.loopback import delivered, looped
from outbound.transports.simulator import events_for

LOOPBACK: Final = "loopback"
"""The flag of a message that went to a mailbox of this deployment."""


def hand_over(message: Message, outcome: Outcome, *, now: datetime) -> None:
    """Queue what the simulator says later, and a copy for each mailbox named here.

    Joins the caller's transaction, which holds the message. Nothing but an accepted
    call hands anything over.
    """
    taken = [
        change.address
        for change in outcome.changes
        if change.status == DeliveryStatus.SUBMITTED
    ]
    _script(message, taken, now=now)
    if inside := looped(taken):
        queue_copies(message, inside, due_at=now)
        _flag(message)
        told = delivered(
            message.public_id,
            sender=message.from_address or "",
            recipients=inside,
            subject=message.subject,
            at=now,
        )
        inbox.store(told, due_at=[now] * len(told))


def _script(message: Message, taken: list[str], *, now: datetime) -> None:
    scripted = events_for(
        message.public_id,
        sender=message.from_address or "",
        recipients=taken,
        subject=message.subject,
        at=now,
    )
    inbox.store(
        [event for _, event in scripted],
        due_at=[now + timedelta(seconds=delay) for delay, _ in scripted],
    )


def _flag(message: Message) -> None:
    message.flags = [*dict.fromkeys([*message.flags, LOOPBACK])]
    message.save(update_fields=["flags"])
