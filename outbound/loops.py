"""Two machines that answer each other are stopped: hops, and automatic replies. Pure.

The page, "Automatic-exchange cap" and policy step 10; mailboxes, section 4.4.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from mailboxes.statuses import MessageKind, Operation

HOP_LIMIT: Final = 10
"""A message with this hop is refused, whatever its kind (409 ``loop_detected``)."""

_REPLIES: Final = frozenset({Operation.REPLY, Operation.REPLY_ALL})
_ANSWERABLE: Final = frozenset({MessageKind.NORMAL, MessageKind.CALENDAR})


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoReplyFacts:
    """What decides an automatic reply.

    ``answered`` is the kind of the message that is answered, None where there is none;
    ``exchanges`` are the automatic replies since the thread's last other message of
    ours (``outbound.answered.EXCHANGES``).
    """

    operation: Operation
    answered: MessageKind | None
    policy: Mapping[str, Any]
    send_policy: Mapping[str, Any]
    exchanges: int


def next_hop(stored: int | None) -> int:
    """Return the hop of a message: 1, or one more than what it answers or forwards."""
    return 1 + max(0, stored or 0)


def is_loop(hop: int) -> bool:
    """Tell whether a message has gone round too often to be sent."""
    return hop >= HOP_LIMIT


def auto_reply_fault(facts: AutoReplyFacts) -> str | None:
    """Say why an automatic reply may not be sent, or return None if it may."""
    rules = facts.policy["auto_reply"]
    if facts.operation not in _REPLIES:
        return "Only a reply can be an automatic one."
    if facts.answered not in _ANSWERABLE:
        return "Only mail that a person or a calendar wrote is answered by a machine."
    if not rules["allowed"]:
        return "The tenant's policy allows no automatic replies."
    if facts.send_policy.get("auto_reply", "allowed") == "denied":
        return "The identity may send no automatic replies."
    if facts.exchanges >= int(rules["max_automatic_exchanges"]):
        return "The thread has had its automatic replies; a person must answer first."
    return None


def hop_of(automated: Any) -> int:
    """Return the hop that an inbound message came with; 0 without one."""
    hop = automated.get("hop") if isinstance(automated, Mapping) else None
    return hop if isinstance(hop, int) and hop > 0 else 0
