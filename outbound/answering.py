"""Pure: what is answered or forwarded, and what follows from it (steps 5, 6 and 10)."""

from collections.abc import Iterator
from typing import Final

from core.addresses import normalize_at
from core.errors import MessageNotFound, ThreadNotFound
from core.text import display_name_fault
from delivery.statuses import RecipientField
from mailboxes.policy import max_recipients
from mailboxes.recipients import (
    AnsweredMessage,
    Party,
    reply_all_recipients,
    reply_recipients,
)
from mailboxes.statuses import MessageKind, MessageStatus, Operation
from mailboxes.subjects import forward_subject, reply_subject
from mailboxes.threading import (
    ThreadHeaders,
    answer_headers,
    forward_headers,
    parent_of,
)
from outbound.draft import Draft
from outbound.errors import AutoReplyNotAllowed, LoopDetected, TooManyRecipients
from outbound.loops import AutoReplyFacts, auto_reply_fault, is_loop, next_hop
from outbound.plan import AnsweredFacts, PlannedRecipient

MOST_NAMED: Final = 1000
"""Parties of a message that a reply to all looks at; no policy allows so many."""
ANSWERS: Final = frozenset({Operation.REPLY, Operation.REPLY_ALL})
UNSENT: Final = frozenset(
    {
        MessageStatus.CANCELED,
        MessageStatus.REJECTED,
        MessageStatus.FAILED,
        MessageStatus.SUPPRESSED,
    }
)
ON_A_MESSAGE: Final = ANSWERS | {Operation.FORWARD}


def target_is_there(draft: Draft) -> None:
    """Step 5: what is answered can be seen; then its subject, thread and hop count."""
    facts = draft.facts
    if draft.operation in ON_A_MESSAGE and facts.answered is None:
        raise MessageNotFound("No such message.")
    if draft.request.thread_id is not None and facts.thread is None:
        raise ThreadNotFound("No such thread.")
    draft.subject = _subject(draft)
    draft.named = _thread_headers(draft)
    draft.hop = next_hop(_stored_hop(draft))


def answer_parties(draft: Draft) -> Iterator[PlannedRecipient]:
    """Yield whom an answer goes to; raises for an address that mail cannot reach."""
    answered = draft.facts.answered
    assert answered is not None  # noqa: S101  step 5 found it
    if draft.operation == Operation.REPLY_ALL:
        _check_named(answered.message, limit=max_recipients(draft.facts.policy))
        found = reply_all_recipients(answered.message, own=draft.facts.own)
    else:
        found = reply_recipients(answered.message)
    for field, parties in (
        (RecipientField.TO, found.to),
        (RecipientField.CC, found.cc),
    ):
        for index, party in enumerate(parties):
            address = normalize_at(party.address, f"{field}[{index}]")
            yield PlannedRecipient(address, _clean_name(party), field)


def _check_named(message: AnsweredMessage, *, limit: int) -> None:
    """Refuse mail that names thousands before each of them is looked at."""
    if (count := len(message.to) + len(message.cc)) > MOST_NAMED:
        raise TooManyRecipients(
            f"The message that is answered names {count} parties; {limit} is the most.",
            details={"limit": limit},
        )


def loops_and_automatic_replies(draft: Draft) -> None:
    """Step 10: an automatic reply is one, and nothing goes round for ever."""
    facts = draft.facts
    if draft.kind == MessageKind.AUTO_REPLY:
        fault = auto_reply_fault(
            AutoReplyFacts(
                operation=draft.operation,
                answered=facts.answered.kind if facts.answered else None,
                policy=facts.policy,
                send_policy=facts.send_policy,
                exchanges=facts.thread.exchanges if facts.thread else 0,
            )
        )
        if fault is not None:
            raise AutoReplyNotAllowed(fault)
    if is_loop(draft.hop):
        raise LoopDetected(
            "The message has been answered or forwarded too often.",
            details={"hop": draft.hop},
        )


def _subject(draft: Draft) -> str:
    answered = draft.facts.answered
    if answered is None:
        return draft.request.subject
    if draft.operation == Operation.FORWARD:
        return forward_subject(answered.subject)
    return reply_subject(answered.subject)


def _thread_headers(draft: Draft) -> ThreadHeaders:
    thread, answered = draft.facts.thread, draft.facts.answered
    if thread is None:
        return ThreadHeaders()
    # nobody has seen a message that did not leave: what came before it is answered
    is_seen = answered is not None and answered.status not in UNSENT
    parent = parent_of(answered.ids if answered and is_seen else None, thread.earlier)
    if draft.operation == Operation.FORWARD:
        return forward_headers(parent)
    return answer_headers(parent)


def _stored_hop(draft: Draft) -> int:
    thread, answered = draft.facts.thread, draft.facts.answered
    if answered is not None:
        return answered.hop
    return thread.hop if thread is not None else 0


def _clean_name(party: Party) -> str | None:
    """Return a name from stored mail; one that no header may hold is left out."""
    name = (party.name or "").strip()
    return name if name and display_name_fault(name) is None else None


def carries_files(draft: Draft) -> bool:
    """Tell whether the files of the answered message go along."""
    return draft.operation == Operation.FORWARD and draft.request.include_attachments


def carried_count(draft: Draft) -> int:
    """Return how many files of a forwarded message go along."""
    answered: AnsweredFacts | None = draft.facts.answered
    return len(answered.files) if answered and carries_files(draft) else 0
