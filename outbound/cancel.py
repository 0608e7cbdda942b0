"""Cancel: a message that waits, unclaimed and wholly unsent, is not sent any more."""

from core.clock import database_now
from delivery.changes import lock_message, statuses_of
from delivery.models import OutboundState
from mailboxes.models import Message
from mailboxes.statuses import MessageStatus
from outbound.errors import NotCancelable
from outbound.settling import UNSENT, cancel_unsent


def cancel(message_id: str, *, actor_key_id: str | None = None) -> None:
    """Take a queued message out of the queue for good, and give back what it held.

    Joins the caller's transaction. Raises NotCancelable when it is claimed, however
    long ago (the call may have sent it), past queued, or partly sent (the page,
    "Cancel"), and for mail that was received.
    """
    message = lock_message(message_id)
    if message is None:
        raise NotCancelable("Only mail that is to be sent can be canceled.")
    if (fault := _fault(message)) is not None:
        raise NotCancelable(fault, details={"status": message.status})
    cancel_unsent(message, now=database_now(), actor_key_id=actor_key_id)


def _fault(message: Message) -> str | None:
    """Return what stands against a cancel; asked under the message's lock."""
    if message.status != MessageStatus.QUEUED:
        return f"The message is {message.status}, not queued."
    unclaimed = OutboundState.objects.filter(message=message, claim_token=None)
    if not unclaimed.exists():
        return "A worker has taken the message for a call that may send it."
    if set(statuses_of(message)) - UNSENT:
        return "A part of the message has been sent; the rest will be tried again."
    return None
