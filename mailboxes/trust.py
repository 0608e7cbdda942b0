"""How far a received message can be trusted, as the API and the events say it."""

from typing import Any, Final

from mailboxes.models import Message
from mailboxes.statuses import MessageKind

TRUST_FLAGS: Final = frozenset(
    {
        *("hidden_text", "display_name_spoof", "lookalike_domain"),
        *("reply_to_mismatch", "thread_join_unverified", "shared_domain_sender"),
    }
)
"""Flags that speak of the sender: shown with the trust, not with the message's own."""
MACHINE_MADE: Final = frozenset(
    {MessageKind.AUTOMATED, MessageKind.DSN, MessageKind.MDN}
)


def trust_of(message: Message) -> dict[str, Any]:
    """Return the trust of a received message (REST contract, section 2.6)."""
    evidence = (message.automated or {}).get("evidence")
    return {
        "known_sender": bool(message.known_sender),
        "automated": message.kind in MACHINE_MADE or bool(evidence),
        "flags": [flag for flag in message.flags if flag in TRUST_FLAGS],
    }
