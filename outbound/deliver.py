"""The worker half: a slot, a claim, one transport call, its record.

Read it after ``send.py``. A ring says no more than "look at this row": it may be late,
doubled or wrong, and the claim decides.
"""

from contextlib import ExitStack, suppress
from enum import Enum, auto
from typing import Final

import structlog
from django.db import Error, connection

from core.database import AWAY
from core.elapsed import elapsed_clock
from core.points import reach
from outbound import claims, dispatch, parked, rounds, slots
from outbound.alerts import report_stuck
from outbound.claims import Claim
from outbound.registry import transport_for
from outbound.senders import Waiting, waiting
from outbound.settling import put_off
from outbound.transports.base import (
    ClaimLost,
    RecipientSuppressed,
    RetryClass,
    RetryLater,
    TransportResult,
    UncertainReason,
    Unknown,
)

GO_ON_SECONDS: Final = 30.0
"""How long one task goes on with messages that found no slot; then its thread is the
pool's again. A broker would redeliver a task that never ends."""

log = structlog.get_logger()


class Delivery(Enum):
    """What became of a ring."""

    DONE = auto()
    NO_SLOT = auto()


def deliver(message_id: str) -> None:
    """Make one transport call if one is due. Safe to call twice, and at the same time.

    With the database away before the claim, the row is due again in 5 s; whatever else
    goes wrong there backs off. A slot that is free again goes on to messages of this
    process that found none.
    """
    ends = elapsed_clock() + GO_ON_SECONDS
    if _deliver(message_id) is Delivery.NO_SLOT:
        return
    while elapsed_clock() < ends and (parked_id := parked.unpark()) is not None:
        if _deliver(parked_id) is Delivery.NO_SLOT:
            return


def _deliver(message_id: str) -> Delivery:
    reach("deliver.rung")
    if (found := _look(message_id)) is None:
        return Delivery.DONE
    try:
        with ExitStack() as held:
            if not _may_go_on(found, held):
                dispatch.give_back(dispatch.MESSAGES, message_id)
                parked.park(message_id)
                return Delivery.NO_SLOT
            # the slot comes first: waiting for it must not eat the claim's time
            if (claim := claims.claim(message_id)) is None:
                return Delivery.DONE
            # between the transactions, never inside
            called = _call_in_rounds(claim)
    except Exception as error:
        _not_taken(message_id, error)
        return Delivery.DONE
    reach("deliver.answered")
    if called is not None:
        claims.record(*called)
    return Delivery.DONE


def _look(message_id: str) -> Waiting | None:
    try:
        return waiting(message_id)
    except Exception as error:
        _not_taken(message_id, error)
        return None


def _not_taken(message_id: str, error: Exception) -> None:
    """Let the row be rung again soon; with the database away, when it is due.

    What fails for another reason would fail again: it backs off, and ends after 24 h
    like every wait, instead of being rung every 5 s for ever.
    """
    log.warning("claim_failed", message_id=message_id, exc_info=error)
    if not connection.is_usable():
        connection.close()  # the next statement opens another
    with suppress(Error):
        if isinstance(error, AWAY):
            dispatch.give_back(dispatch.MESSAGES, message_id)
        else:
            report_stuck(message_id, "claim_failed")
            put_off(message_id, RetryClass.PAUSED, code="claim_failed")


def _may_go_on(found: Waiting, held: ExitStack) -> bool:
    """Take the slot that a call needs; False if none is free, or this process ends."""
    if dispatch.Closing.is_set:
        return False
    if not found.needs_slot:
        return True
    if (slot := slots.take(found.domain)) is None:
        return False
    held.enter_context(slot)
    return not dispatch.Closing.is_set  # it may have begun to end while we waited


def _call_in_rounds(claim: Claim) -> tuple[Claim, TransportResult] | None:
    """Call, and again for those whom the provider does not suppress.

    None when no outcome is left to be recorded.
    """
    result = _call(claim)
    for _ in range(rounds.MOST):
        if not isinstance(result, RecipientSuppressed) or not result.found:
            break
        reach("deliver.suppressed")
        if (rest := rounds.next_round(claim, result)) is None:
            return None
        claim, result = rest, _call(rest)
    return claim, result


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
        log.error(
            "transport_broke",
            message_id=claim.message_id,
            attempt=claim.n,
            exc_info=error,
        )
        return Unknown(UncertainReason.CONNECTION_LOST, type(error).__name__)
