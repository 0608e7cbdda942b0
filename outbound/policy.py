"""Pure: the nineteen steps between a request and a plan, in the page's order.

The first step that refuses answers, and nothing is stored. Steps 1 to 7 ask what was
loaded, 8 to 16 what is known of the recipients too; 17 asks the composed bytes, and 18
and 19 the locked rows, where each of them is.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from outbound import answering, checks, content
from outbound.draft import Draft
from outbound.errors import MessageTooLarge

LARGEST_MESSAGE: Final = 5 * 2**20 - 8192
"""Octets of a composed message; 8 KiB are left for what a transport adds."""

Check = Callable[[Draft], None]


@dataclass(frozen=True, slots=True)
class Step:
    """One rule; without a check here it is asked later, by what ``asked_by`` names."""

    number: int
    rule: str
    check: Check | None = None
    asked_by: str | None = None


STEPS: Final = (
    Step(1, "the identity is there", checks.identity_is_there),
    Step(2, "the tenant is not suspended", checks.tenant_is_active),
    Step(3, "the identity is not paused", checks.identity_is_active),
    Step(4, "somebody is accountable", checks.somebody_is_accountable),
    Step(5, "the message or thread that is answered exists", answering.target_is_there),
    Step(6, "each recipient is an address, and there is one", checks.recipients),
    Step(7, "not too many recipients", checks.not_too_many),
    Step(8, "a test tenant writes to nobody outside", checks.test_mode),
    Step(9, "marketing carries its way out", checks.marketing),
    Step(
        10,
        "an automatic reply is one, and nothing goes round",
        answering.loops_and_automatic_replies,
    ),
    Step(11, "custom headers are allowed", content.custom_headers),
    Step(12, "content is there, and within its limits", content.limits),
    Step(13, "From is an address of the identity", checks.sender),
    Step(14, "the sending domain and address are ready", checks.domain_is_ready),
    Step(15, "the domain's transport is configured", checks.transport_is_there),
    Step(16, "recipients that may not be written to are set aside", checks.set_aside),
    Step(
        17, "the composed message is not too large", asked_by="composing.compose_plan"
    ),
    Step(18, "the allowance and the daily caps", asked_by="quota.services.reserve"),
    Step(19, "the thread is free", asked_by="thread_lock.take"),
)
"""Every step of the page, in its order."""

NEEDS_RECIPIENTS: Final = 8
"""The first step that asks rows about the recipients, who are known by then."""


def check_request(draft: Draft) -> None:
    """Ask steps 1 to 7; raises the first refusal in the page's order."""
    _ask(draft, STEPS[: NEEDS_RECIPIENTS - 1])


def check_recipients(draft: Draft) -> None:
    """Ask steps 8 to 16, for which ``draft.filters`` has been read."""
    _ask(draft, STEPS[NEEDS_RECIPIENTS - 1 :])


def check_size(mime: bytes) -> None:
    """Raise MessageTooLarge for more octets than any transport takes (step 17)."""
    if len(mime) > LARGEST_MESSAGE:
        raise MessageTooLarge(
            f"The message has {len(mime)} bytes; {LARGEST_MESSAGE} is the most."
        )


def _ask(draft: Draft, steps: tuple[Step, ...]) -> None:
    for step in steps:
        if step.check is not None:
            step.check(draft)
