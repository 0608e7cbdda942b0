"""Recipients set aside between submit and claim: they get no call.

Suppressions and the tenant's blocks are looked at again at claim time, for hours may
lie between. What only decides whether a send may begin is not: a recipient who was
known, or on the list, when the send was accepted stays so.
"""

from datetime import datetime

from delivery.changes import DeliveryChange, announce, move, settle_status
from delivery.statuses import DeliveryStatus
from mailboxes.models import Message
from suppressions.filters import filter_recipients
from suppressions.selectors import filter_facts


def withhold(message: Message, *, now: datetime) -> bool:
    """Set aside who may not be written to by now; tell whether there is anybody.

    Joins the caller's transaction, which holds the message; with nobody left, the
    message has left the queue. Else what was held for them stays so: the caller gives
    it back when all else is locked.
    """
    queued = message.deliveries.filter(status=DeliveryStatus.QUEUED)
    addresses = sorted(queued.values_list("address", flat=True))
    facts = filter_facts(
        addresses,
        tenant_id=message.tenant_id,
        identity_id=message.identity_id,
        now=now,
    )
    found = filter_recipients(
        addresses, facts, allowlist_only=False, require_known=False
    )
    if not found:
        return False
    changes = [
        DeliveryChange(
            address,
            DeliveryStatus.SUPPRESSED,
            reason=str(filtered.reason),
            smtp_response=filtered.smtp_response,
        )
        for address, filtered in found.items()
    ]
    move(message, changes, from_={DeliveryStatus.QUEUED}, now=now)
    announce(message, settle_status(message, charged=0, now=now), now=now)
    return True
