"""The transport of test tenants: the recipient's local part picks the script (pure).

Outbound tables, section 9. Nothing leaves; what a provider would say later is returned
as events with their delays, for the inbox.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from core.ids import ulid_of
from delivery.events import DeliveryEvent
from delivery.statuses import DeliveryKind, EventSource
from outbound.transports.base import (
    Accepted,
    OutgoingMessage,
    Phase,
    Rejected,
    RejectReason,
    TransportResult,
    UncertainReason,
    Unknown,
)

DOMAIN: Final = "simulator.invalid"
REJECT, TIMEOUT = "reject", "timeout"


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that the provider will say, and how long after the call, in seconds."""

    after: int
    kind: DeliveryKind
    hard: bool = False
    smtp_code: str | None = None
    enhanced_code: str | None = None


_DELIVERED = Line(1, DeliveryKind.DELIVERED)
_DEFERRED = Line(1, DeliveryKind.DEFERRED, smtp_code="451", enhanced_code="4.2.0")

SCRIPTS: Final[Mapping[str, tuple[Line, ...]]] = {
    "delivered": (_DELIVERED,),
    "bounce": (
        Line(1, DeliveryKind.BOUNCED, True, smtp_code="550", enhanced_code="5.1.1"),
    ),
    "softbounce": (_DEFERRED, Line(3, DeliveryKind.BOUNCED)),
    "complaint": (_DELIVERED, Line(3, DeliveryKind.COMPLAINED)),
    "deferred": (_DEFERRED,),
    REJECT: (),
    TIMEOUT: (),
}
"""The scripts by local part; any other local part is delivered."""


def is_simulated(address: str) -> bool:
    """Tell whether the simulator answers for this address."""
    return address.rpartition("@")[2].lower() == DOMAIN


def script_of(address: str) -> str:
    """Return the name of the script that an address picks."""
    local_part = address.rpartition("@")[0].lower()
    return local_part if local_part in SCRIPTS else "delivered"


def provider_id(message_id: str) -> str:
    """Return the id under which the simulator takes a message."""
    return f"test-{ulid_of(message_id)}"


def result_of(message_id: str, recipients: Sequence[str]) -> TransportResult:
    """Return how the call ends: any reject decides, else any time-out, else accepted.

    Recipients on this deployment do not count: they take whatever the simulator takes.
    """
    scripts = {script_of(address) for address in recipients if is_simulated(address)}
    if REJECT in scripts:
        return Rejected(
            RejectReason.PROVIDER_VALIDATION,
            "E_SIMULATED_REJECT",
            "the simulator rejects this recipient",
        )
    if TIMEOUT in scripts:
        return Unknown(
            UncertainReason.TIMEOUT, "the simulator never answers this recipient"
        )
    return Accepted(provider_id(message_id))


def events_for(
    message_id: str,
    *,
    sender: str,
    recipients: Sequence[str],
    subject: str | None,
    at: datetime,
) -> list[tuple[int, DeliveryEvent]]:
    """Return what the provider will say of an accepted message, with delays in seconds.

    Empty unless the call ended accepted. The same arguments give the same event ids,
    so storing twice stores once.
    """
    if not isinstance(result_of(message_id, recipients), Accepted):
        return []
    return [
        (line.after, _event(message_id, sender, address, subject, at, n, line))
        for address in recipients
        if is_simulated(address)
        for n, line in _script(address)
    ]


def _script(address: str) -> Iterator[tuple[int, Line]]:
    return enumerate(SCRIPTS[script_of(address)], start=1)


def _event(
    message_id: str,
    sender: str,
    recipient: str,
    subject: str | None,
    at: datetime,
    n: int,
    line: Line,
) -> DeliveryEvent:
    return DeliveryEvent(
        source=EventSource.SIMULATOR,
        event_id=f"sim:{message_id}:{recipient}:{n}",
        provider_message_id=provider_id(message_id),
        sender=sender,
        recipient=recipient,
        kind=line.kind,
        occurred_at=at + timedelta(seconds=line.after),
        subject=subject,
        hard=line.hard,
        smtp_code=line.smtp_code,
        enhanced_code=line.enhanced_code,
        smtp_response=_words(line),
    )


def _words(line: Line) -> str | None:
    if line.smtp_code is None:
        return None
    return f"{line.smtp_code} {line.enhanced_code} simulated {line.kind}"


class SimulatorTransport:
    """Answers like a provider, by the recipients' local parts; nothing leaves."""

    def send(self, message: OutgoingMessage) -> TransportResult:
        """Return the scripted result; the phases are announced as for a real call."""
        message.announce(Phase.SENDING)
        result = result_of(message.message_id, message.recipients)
        if isinstance(result, Unknown):  # nothing is unknown before the whole mail went
            message.announce(Phase.AWAITING_REPLY)
        return result
