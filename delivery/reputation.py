"""What an event says of its sender: counted in the windows that may pause it."""

from datetime import datetime
from typing import Final

from delivery.events import DeliveryEvent
from delivery.models import Delivery
from delivery.statuses import DeliveryKind, DeliveryStatus
from mailboxes.models import Message
from quota.window_services import record_outcome
from quota.windows import Outcome

_SAYS: Final = {
    DeliveryKind.DELIVERED: Outcome.DELIVERED,
    DeliveryKind.COMPLAINED: Outcome.COMPLAINED,
    DeliveryKind.BOUNCED: Outcome.OTHER,  # a soft one
    DeliveryKind.FAILED: Outcome.OTHER,
    DeliveryKind.REJECTED: Outcome.OTHER,
}


def count_outcome(
    message: Message, before: Delivery, event: DeliveryEvent, *, now: datetime
) -> None:
    """Count an applied event for or against its sender, and pause it if that is due.

    ``before`` is the delivery as it was. Joins the caller's transaction, which holds
    the mailbox; the last thing in it, so that the pause is told after its reason.
    """
    outcome = outcome_of(event, before)
    if outcome is not None:
        record_outcome(
            message.tenant_id,
            message.identity_id,
            outcome,
            event_id=f"{event.source}:{event.event_id}",
            now=now,
        )


def outcome_of(event: DeliveryEvent, before: Delivery) -> Outcome | None:
    """Return what an applied event counts as; None for what is nothing new.

    A delay is no outcome yet. A bounce that a provider tells of twice, in its answer
    and by an event, is one bounce; a soft one that proves to be hard is another.
    """
    is_hard = event.kind == DeliveryKind.BOUNCED and event.hard
    if before.status == DeliveryStatus.BOUNCED and event.kind == DeliveryKind.BOUNCED:
        return Outcome.BOUNCED if is_hard and before.bounce_type != "hard" else None
    return Outcome.BOUNCED if is_hard else _SAYS.get(event.kind)
