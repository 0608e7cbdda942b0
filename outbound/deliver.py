"""The worker half: a slot, a claim, one transport call, its record.

Read it after ``send.py``. A ring says no more than "look at this row": it may be late,
doubled or wrong, and the claim decides.
"""

from contextlib import ExitStack

import structlog

from core.points import reach
from outbound import claims, dispatch, slots
from outbound.claims import Claim
from outbound.registry import transport_for
from outbound.senders import Waiting, waiting
from outbound.transports.base import (
    ClaimLost,
    RetryClass,
    RetryLater,
    TransportResult,
    UncertainReason,
    Unknown,
)

log = structlog.get_logger()


def deliver(message_id: str) -> None:
    """Make one transport call if one is due. Safe to call twice, and at the same time.

    Whatever goes wrong before the claim, the row is due again in 5 s.
    """
    reach("deliver.rung")
    try:
        with ExitStack() as held:
            if (claim := _take(message_id, held)) is None:
                return
            result = _call(claim)  # between the transactions, never inside
    except Exception as error:
        log.warning("claim_failed", message_id=message_id, error=type(error).__name__)
        dispatch.give_back(dispatch.MESSAGES, message_id)
        return
    reach("deliver.answered")
    claims.record(claim, result)


def _take(message_id: str, held: ExitStack) -> Claim | None:
    """Return the claim, with the slot that its call needs held; None: nothing is due.

    The slot comes first, so that waiting for it never eats the claim's time. Without
    one, or when this process is ending, the row is given back.
    """
    if (found := waiting(message_id)) is None:
        return None
    if not _may_go_on(found, held):
        dispatch.give_back(dispatch.MESSAGES, message_id)
        return None
    return claims.claim(message_id)


def _may_go_on(found: Waiting, held: ExitStack) -> bool:
    if dispatch.Closing.is_set:
        return False
    if not found.needs_slot:
        return True
    if (slot := slots.take(found.domain)) is None:
        return False
    held.enter_context(slot)
    return not dispatch.Closing.is_set  # it may have begun to end while we waited


def _call(claim: Claim) -> TransportResult:
    """Call the transport once. Doubt is never called a failure, nor tried again."""
    try:
        transport = transport_for(claim)
        reach("deliver.claimed")
    except Exception as error:
        return RetryLater(RetryClass.PAUSED, "no_call", type(error).__name__)
    try:
        return transport.send(claim.outgoing)
    except ClaimLost as error:
        return RetryLater(RetryClass.RELAY, "claim_lost", str(error))
    except Exception as error:
        log.exception("transport_broke", message_id=claim.message_id, attempt=claim.n)
        return Unknown(UncertainReason.CONNECTION_LOST, type(error).__name__)
