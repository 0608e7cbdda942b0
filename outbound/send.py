"""The request half as one function: read this first."""

import random
from dataclasses import replace
from functools import partial
from typing import Final

from core.clock import elapsed_clock
from core.errors import DeadlinePassed
from core.ids import new_id
from core.points import reach
from outbound import ledger, services
from outbound.ledger import Accepted, Slot
from outbound.order import Order
from outbound.plan import SendFacts
from outbound.prepare import judge, plan_of, with_target
from outbound.selectors import look_again, look_without_key
from outbound.sent_copy import SentCopy
from outbound.services import Stale
from outbound.signing import ring_key
from outbound.stored_html import with_original
from outbound.thread_lock import patience
from quota.billing_services import tell_of_limit
from quota.errors import BillingLimit
from quota.selectors import peek_at_quota

DEADLINE_SECONDS = 30.0
SPREAD: Final = 64
"""How far apart sends pick numbers for new threads once they have collided."""


def send(order: Order) -> Accepted:
    """Accept the request once, however often it is repeated under the same key."""
    slot = order.slot()
    if earlier := ledger.find_replay_within(slot, caller=order.caller):
        return earlier
    order = with_original(order, keep=True)
    try:
        return services.in_one_transaction(slot, partial(_first_time, order, slot))
    except BillingLimit as refused:
        tell_of_limit(refused)  # what the refusal itself took is undone
        raise


def _first_time(order: Order, slot: Slot, copy: SentCopy) -> Accepted:
    """Decide and record a send that the ledger does not know yet."""
    ledger.hold_key(slot)  # 409 for a second request with this key, until we commit
    facts = look_again(slot)
    if isinstance(facts, Accepted):
        return facts
    message_id, thread_id = new_id("msg"), new_id("thr")
    with patience() as own:
        while True:
            facts = with_target(facts, order)
            draft = judge(facts, order)
            plan, composed = plan_of(
                draft, message_id=message_id, thread_id=thread_id, sign=ring_key
            )
            peek_at_quota(
                facts.counted,
                plan.caps,
                units=plan.units,
                gates=plan.gates,
                now=facts.now,
            )
            copy.write(plan, composed, slot)
            reach("submit.second_look")
            outcome = services.accept(plan, composed, slot, patience=own)
            _check_deadline(order.started)
            if isinstance(outcome, Accepted):
                return outcome
            facts = _renewed(order.identity_id, outcome)


def _renewed(identity_id: str, stale: Stale) -> SendFacts:
    """Return the facts to compose on again: all that a wait may have made old.

    What is answered is read when the target is.
    """
    facts = look_without_key(identity_id)
    ahead = random.randrange(SPREAD)  # noqa: S311  no secret: it keeps sends apart
    return replace(facts, next_thread_seq=stale.next_seq + ahead)


def _check_deadline(started: float) -> None:
    """Give up after 30 s, while nothing is stored yet."""
    if elapsed_clock() - started > DEADLINE_SECONDS:
        raise DeadlinePassed("The request took longer than 30 s.")
