"""Pure: the nineteen steps between a request and a plan, in the page's order.

The first step that refuses answers, and nothing is stored. Steps without a check have
their place here and come with their own feature; 17 to 19 are asked where the composed
bytes and the locked rows are.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from outbound import checks, content
from outbound.draft import Draft, NewIds
from outbound.errors import MessageTooLarge
from outbound.plan import SendFacts, SendPlan
from outbound.requests import SendRequest

LARGEST_MESSAGE: Final = 5 * 2**20 - 8192
"""Octets of a composed message; 8 KiB are left for what a transport adds."""

Check = Callable[[Draft], None]


@dataclass(frozen=True, slots=True)
class Step:
    """One rule; without a check nothing can break it yet, or it is asked later."""

    number: int
    rule: str
    check: Check | None = None


STEPS: Final = (
    Step(1, "the identity is there", checks.identity_is_there),
    Step(2, "the tenant is not suspended", checks.tenant_is_active),
    Step(3, "the identity is not paused", checks.identity_is_active),
    Step(4, "somebody is accountable", checks.somebody_is_accountable),
    Step(5, "the message or thread that is answered exists"),
    Step(6, "each recipient is an address, and there is one", checks.recipients),
    Step(7, "not too many recipients", checks.not_too_many),
    Step(8, "a test tenant writes to the simulator", checks.test_mode),
    Step(9, "marketing carries its way out", checks.marketing),
    Step(10, "an automatic reply is one", checks.auto_reply),
    Step(11, "custom headers are allowed", content.custom_headers),
    Step(12, "content is there, and within its limits", content.limits),
    Step(13, "From is an address of the identity", checks.sender),
    Step(14, "the sending domain and address are ready", checks.domain_is_ready),
    Step(15, "the domain's transport is configured", checks.transport_is_there),
    Step(16, "recipients that may not be written to are set aside"),
    Step(17, "the composed message is not too large"),  # check_size()
    Step(18, "the allowance and the daily caps"),  # quota, in accept()
    Step(19, "the thread is free"),  # threaded sends, in accept()
)
"""Every step of the page, in its order."""


def evaluate_send(facts: SendFacts, request: SendRequest, *, ids: NewIds) -> SendPlan:
    """Return the plan of a send; raises the first refusal in the page's order."""
    draft = Draft(facts=facts, request=request)
    for step in STEPS:
        if step.check is not None:
            step.check(draft)
    return draft.finish(ids)


def check_size(mime: bytes) -> None:
    """Raise MessageTooLarge for more octets than any transport takes (step 17)."""
    if len(mime) > LARGEST_MESSAGE:
        raise MessageTooLarge(
            f"The message has {len(mime)} bytes; {LARGEST_MESSAGE} is the most."
        )
