"""Deliveries to the message's status: pure (REST contract, section 2.7)."""

from collections.abc import Iterable
from typing import Final

from delivery.statuses import OPEN, DeliveryStatus
from mailboxes.statuses import MessageStatus

D, M = DeliveryStatus, MessageStatus

FINAL: Final = frozenset(
    {
        M.DELIVERED,
        M.BOUNCED,
        M.COMPLAINED,
        M.REJECTED,
        M.FAILED,
        M.SUPPRESSED,
        M.CANCELED,
    }
)
LATE: Final = frozenset(
    {
        (M.DELIVERED, M.BOUNCED),
        (M.DELIVERED, M.COMPLAINED),
        (M.BOUNCED, M.COMPLAINED),
    }
)
"""The only ways in which a final status still changes."""

WORST_FIRST: Final = (
    (D.BOUNCED, M.BOUNCED),
    (D.FAILED, M.FAILED),
    (D.REJECTED, M.REJECTED),
)


def roll_up(
    current: MessageStatus, statuses: Iterable[DeliveryStatus]
) -> MessageStatus:
    """Return the status that follows from the deliveries, if it may follow at all."""
    rolled = _rolled(current, set(statuses) - {D.SUPPRESSED})
    if current in FINAL and (current, rolled) not in LATE:
        return current
    return rolled


def _rolled(current: MessageStatus, present: set[DeliveryStatus]) -> MessageStatus:
    if not present:
        return M.SUPPRESSED
    # before the complaint: a message that left the queue would lose who still waits
    if current == M.QUEUED and D.QUEUED in present:
        return M.QUEUED
    if D.COMPLAINED in present:
        return M.COMPLAINED
    if D.QUEUED in present:
        return M.QUEUED
    if still_open := present & OPEN:
        if current == M.UNCERTAIN and still_open == {D.UNCERTAIN}:
            return M.UNCERTAIN
        return M.DEFERRED if D.DEFERRED in present else M.SUBMITTED
    return next((m for d, m in WORST_FIRST if d in present), M.DELIVERED)
