"""The request half as one function: read this first."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from core.clock import elapsed_clock
from core.errors import DeadlinePassed
from core.ids import new_id
from core.points import reach
from delivery.statuses import RecipientField
from mailboxes.callers import Caller
from mailboxes.statuses import Operation
from outbound import ledger, services
from outbound.compose import ComposeInput, Mailbox, compose
from outbound.draft import NewIds
from outbound.fingerprint import fingerprint
from outbound.ledger import Accepted, Slot
from outbound.plan import SendPlan
from outbound.policy import check_size, evaluate_send
from outbound.requests import SendRequest
from outbound.selectors import look_again
from outbound.sent_copy import SentCopy

DEADLINE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Order:
    """One request to send: who asks, under which key, and for what."""

    caller: Caller
    identity_id: str
    key_hash: str
    body: Mapping[str, Any]
    request: SendRequest
    started: float

    def slot(self) -> Slot:
        """Return its place in the ledger; the hash is over the body as received."""
        digest = fingerprint(Operation.SEND, self.identity_id, self.body)
        return Slot(self.identity_id, self.key_hash, digest, Operation.SEND)


def send(order: Order) -> Accepted:
    """Accept the request once, however often it is repeated under the same key."""
    slot = order.slot()
    if earlier := ledger.find_replay_within(slot, caller=order.caller):
        return earlier
    return services.in_one_transaction(slot, partial(_first_time, order, slot))


def _first_time(order: Order, slot: Slot, copy: SentCopy) -> Accepted:
    """Decide and record a send that the ledger does not know yet."""
    ledger.hold_key(slot)  # 409 for a second request with this key, until we commit
    facts = look_again(slot)
    if isinstance(facts, Accepted):
        return facts
    plan = evaluate_send(facts, order.request, ids=_new_ids(order.request))
    composed = compose(_to_compose(plan))
    check_size(composed.mime)
    copy.write(plan, composed, slot)
    reach("submit.second_look")
    accepted = services.accept(plan, composed, slot)
    _check_deadline(order.started)
    return accepted


def _new_ids(request: SendRequest) -> NewIds:
    attachments = tuple(new_id("att") for _ in request.attachments)
    return NewIds(new_id("msg"), new_id("thr"), attachments)


def _to_compose(plan: SendPlan) -> ComposeInput:
    to, cc = (
        tuple(Mailbox(r.address, r.name or "") for r in plan.in_field(field))
        for field in (RecipientField.TO, RecipientField.CC)
    )
    return ComposeInput(
        message_id=plan.message_id,
        sent_at=plan.now,
        from_=Mailbox(plan.from_address, plan.from_name),
        subject=plan.subject,
        to=to,
        cc=cc,
        text=plan.text,
        html=plan.html,
        headers=plan.headers,
        attachments=tuple(planned.file for planned in plan.files),
    )


def _check_deadline(started: float) -> None:
    """Give up after 30 s, while nothing is stored yet."""
    if elapsed_clock() - started > DEADLINE_SECONDS:
        raise DeadlinePassed("The request took longer than 30 s.")
