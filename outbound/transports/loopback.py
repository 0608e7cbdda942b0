"""The transport of test tenants for addresses on this deployment (pure).

Outbound tables, sections 4 and 9. It speaks to nobody: whoever records its answer hands
the composed bytes to the recipients' mailboxes, in the same transaction.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from delivery.events import DeliveryEvent
from delivery.statuses import DeliveryKind, EventSource
from mailboxes.statuses import Provider
from outbound.transports.base import Accepted, OutgoingMessage, Phase, TransportResult
from outbound.transports.simulator import is_simulated, provider_id

TEST_PROVIDERS: Final = frozenset({Provider.SIMULATOR, Provider.LOOPBACK})
"""What carries the mail of test tenants: none of it leaves the deployment."""


def carrier_of(recipients: Iterable[str]) -> Provider:
    """Return what makes the one call of a test tenant's message.

    The simulator if it answers for anybody, since it may refuse; else loopback.
    """
    if any(is_simulated(address) for address in recipients):
        return Provider.SIMULATOR
    return Provider.LOOPBACK


def looped(recipients: Iterable[str]) -> list[str]:
    """Return the recipients whose mailboxes are on this deployment."""
    return [address for address in recipients if not is_simulated(address)]


def delivered(
    message_id: str,
    *,
    sender: str,
    recipients: Sequence[str],
    subject: str | None,
    at: datetime,
) -> list[DeliveryEvent]:
    """Return one event for each recipient that is handed a copy; its id is fixed."""
    return [
        DeliveryEvent(
            source=EventSource.LOOPBACK,
            event_id=f"loop:{message_id}:{address}",
            provider_message_id=provider_id(message_id),
            sender=sender,
            recipient=address,
            kind=DeliveryKind.DELIVERED,
            occurred_at=at,
            subject=subject,
        )
        for address in recipients
    ]


class LoopbackTransport:
    """Takes every message; the phases are announced as for a real call."""

    def send(self, message: OutgoingMessage) -> TransportResult:
        """Accept the message under the id that the simulator would give it."""
        message.announce(Phase.SENDING)
        return Accepted(
            provider_id(message.message_id), rfc_message_id=message.rfc_message_id
        )
