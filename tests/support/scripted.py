"""A transport that answers from a script, and what a worker does with it."""

from collections.abc import Callable
from dataclasses import dataclass, field

from outbound import claims
from outbound.claims import Claim
from outbound.transports.base import Accepted, OutgoingMessage, TransportResult

Answer = TransportResult | Callable[[OutgoingMessage], TransportResult]


@dataclass
class ScriptedTransport:
    """Answers each call with the next of its answers, and keeps the calls."""

    answers: list[Answer] = field(default_factory=list)
    calls: list[OutgoingMessage] = field(default_factory=list)

    def send(self, message: OutgoingMessage) -> TransportResult:
        """Answer one call; accepted when the script is over."""
        self.calls.append(message)
        if not self.answers:
            return accepted(message)
        answer = self.answers.pop(0)
        return answer(message) if callable(answer) else answer


def accepted(message: OutgoingMessage) -> Accepted:
    """Return the answer of a relay that took the message."""
    return Accepted(
        provider_message_id=f"smtp:relay.example.net:{message.rfc_message_id}",
        rfc_message_id=message.rfc_message_id,
    )


def work(message_id: str, transport: ScriptedTransport) -> Claim | None:
    """Do what a worker does with one ring: claim, call, record."""
    claim = claims.claim(message_id)
    if claim is not None:
        claims.record(claim, transport.send(claim.outgoing))
    return claim
