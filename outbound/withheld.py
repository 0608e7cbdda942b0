"""Recipients who have been suppressed between submit and claim: they get no call.

Architecture section 9: suppressions are looked at again at claim time, for hours may
lie between.
"""

from datetime import datetime

from delivery.changes import DeliveryChange, announce, move, settle_status
from delivery.statuses import DeliveryStatus
from mailboxes.models import Message
from mailboxes.statuses import MessageStatus
from suppressions.selectors import suppressed_among


def withhold(message: Message, *, now: datetime) -> bool:
    """Set aside who is suppressed by now; tell whether the message still waits.

    Joins the caller's transaction, which holds the message; with nobody left, the
    message has left the queue.
    """
    queued = message.deliveries.filter(status=DeliveryStatus.QUEUED)
    addresses = sorted(queued.values_list("address", flat=True))
    found = suppressed_among(addresses, tenant_id=message.tenant_id, now=now)
    if not found:
        return True
    changes = [
        DeliveryChange(
            address,
            DeliveryStatus.SUPPRESSED,
            reason=str(reason),
            smtp_response=f"policy: suppression ({reason})",
        )
        for address, reason in found.items()
    ]
    move(message, changes, from_={DeliveryStatus.QUEUED}, now=now)
    announce(message, settle_status(message, charged=0, now=now), now=now)
    return message.status == MessageStatus.QUEUED
