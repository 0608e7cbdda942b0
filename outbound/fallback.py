"""Under which sender a claimed message leaves: its own, or the platform's address.

The page, "From address and fallback". Everything here joins the transaction of the
claim, which holds the mailbox and the message.
"""

from typing import Final

from core.addresses import domain_of, org_domain
from delivery.models import OutboundState
from delivery.statuses import AttemptResult
from mailboxes.models import Message
from outbound.compose import Mailbox
from outbound.rewriting import with_sender
from outbound.senders import Origin
from outbound.serializers import Json, person
from outbound.signing import reply_address, ring_key

FLAG: Final = "sent_via_fallback"


def leave_from(
    message: Message, state: OutboundState, origin: Origin, mime: bytes
) -> bytes:
    """Let the message's row name who sends it now, and return its bytes under it."""
    if origin.address == message.from_address:
        return mime
    state.as_composed = {
        "from_address": message.from_address,
        "reply_to": message.reply_to,
    }
    state.save(update_fields=["as_composed"])
    name = message.from_name or ""
    answers_to = reply_address(
        origin, message.thread.seq, identity_id=message.identity_id, sign=ring_key
    )
    _name_sender(
        message,
        origin.address,
        reply_to=[person(answers_to, name)] if answers_to else [],
        flags=[*dict.fromkeys([*message.flags, FLAG])],
    )
    message.thread.fallback_pinned = True
    message.thread.save(update_fields=["fallback_pinned"])
    return with_sender(
        mime,
        from_=Mailbox(origin.address, name),
        reply_to=Mailbox(answers_to, name) if answers_to else None,
    )


def come_back(message: Message, state: OutboundState) -> None:
    """Name the message's own sender again, when it did not leave, or not whole.

    A retry decides anew. The flag stays if a part has left by fallback, the thread's
    pin for its 72 hours.
    """
    if (own := state.as_composed) is None:
        return
    taken = message.attempts.filter(result=AttemptResult.ACCEPTED)
    part_fell_back = taken.exclude(from_address=own["from_address"]).exists()
    _name_sender(
        message,
        own["from_address"],
        reply_to=own["reply_to"],
        flags=[flag for flag in message.flags if flag != FLAG or part_fell_back],
    )


def _name_sender(
    message: Message, address: str, *, reply_to: list[Json], flags: list[str]
) -> None:
    message.from_address = address
    message.sender_domain = org_domain(domain_of(address))
    message.reply_to = reply_to
    message.flags = flags
    message.save(
        update_fields=["from_address", "sender_domain", "reply_to", "flags"],
    )
