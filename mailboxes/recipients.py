"""Whom an answer goes to, and who takes part in a thread.

The page, "Recipients"; mailboxes, sections 3.4 and 3.8. Addresses are normalised where
they are compared, and passed on as they were. Pure.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from core.addresses import domain_of, normalize, org_domain
from core.errors import AddressInvalid, AddressUnsupported
from mailboxes.statuses import Direction
from mailboxes.thread_tokens import split_subaddress

PARTICIPANTS_LIMIT: Final = 50
PARTICIPANT_NAME_LIMIT: Final = 78


class Party(NamedTuple):
    """Somebody named in a header."""

    address: str
    name: str | None = None


@dataclass(frozen=True, slots=True)
class AnsweredMessage:
    """What the headers of the message that is answered say; its BCC on purpose not.

    ``has_written_to_reply_to`` tells whether the mailbox has sent mail to the first
    Reply-To address before (its contact's ``outbound_count``).
    """

    direction: Direction
    sender: Party | None
    to: tuple[Party, ...] = ()
    cc: tuple[Party, ...] = ()
    reply_to: tuple[Party, ...] = ()
    known_sender: bool = False
    has_written_to_reply_to: bool = False


@dataclass(frozen=True, slots=True)
class AnswerRecipients:
    """The recipients of an answer; it never has a BCC."""

    to: tuple[Party, ...]
    cc: tuple[Party, ...] = ()


def reply_target(message: AnsweredMessage) -> Party | None:
    """Return whom a reply to an inbound message goes to; None if nobody is named.

    The first Reply-To counts if the sender is known, if it shares From's organisation,
    or if it was written to before: otherwise anybody could turn answers elsewhere.
    """
    if not message.reply_to:
        return message.sender
    wanted = message.reply_to[0]
    is_trusted = (
        message.known_sender
        or message.has_written_to_reply_to
        or _share_an_organisation(wanted, message.sender)
    )
    return wanted if is_trusted else message.sender


def reply_recipients(message: AnsweredMessage) -> AnswerRecipients:
    """Return whom a reply goes to: the target, or those whom our own message named."""
    if message.direction == Direction.OUTBOUND:
        return _without_repeats(message.to, message.cc)
    target = reply_target(message)
    return AnswerRecipients((target,) if target else ())


def reply_all_recipients(
    message: AnsweredMessage, *, own: frozenset[str]
) -> AnswerRecipients:
    """Return whom a reply to all goes to: target and To, then Cc.

    ``own`` are the identity's addresses in any status: they are left out, with or
    without a tag, and so nothing shows that the identity was a BCC. BCC is never asked.
    """
    target = reply_target(message) if message.direction == Direction.INBOUND else None
    to = (target, *message.to) if target else message.to
    return _without_repeats(
        [party for party in to if not is_own(party.address, own)],
        [party for party in message.cc if not is_own(party.address, own)],
    )


def participants(
    known: Sequence[Party],
    named: Iterable[Party],
    *,
    own: frozenset[str],
    journal: str | None = None,
) -> list[Party]:
    """Return who takes part in a thread after one more message, at most 50.

    ``named`` are From, To and Cc of a message that came in, To and Cc of one that goes
    out; never BCC. In order of appearance; the newest name that is not empty counts.
    Own addresses and copies to the ``journal`` address take no part.
    """
    left_out = own | {journal} if journal else own
    found = {address_key(party.address): party for party in known}
    for party in named:
        key = address_key(party.address)
        if is_own(key, left_out):
            continue
        if key not in found and len(found) >= PARTICIPANTS_LIMIT:
            continue
        name = (party.name or "").strip()[:PARTICIPANT_NAME_LIMIT]
        earlier = found.get(key)
        found[key] = Party(key, name or (earlier.name if earlier else None))
    return list(found.values())


def is_own(address: str, own: frozenset[str]) -> bool:
    """Tell whether an address is one of these, also with a tag such as a token."""
    key = address_key(address)
    return key in own or split_subaddress(key)[0] in own


def _without_repeats(to: Iterable[Party], cc: Iterable[Party]) -> AnswerRecipients:
    """Name everybody once, where they stand first; To before Cc."""
    seen: set[str] = set()
    return AnswerRecipients(tuple(_new(to, seen)), tuple(_new(cc, seen)))


def _new(parties: Iterable[Party], seen: set[str]) -> Iterator[Party]:
    for party in parties:
        if (key := address_key(party.address)) not in seen:
            seen.add(key)
            yield party


def _share_an_organisation(one: Party, other: Party | None) -> bool:
    if other is None:
        return False
    domains = [domain_of(address_key(party.address)) for party in (one, other)]
    return bool(domains[0]) and org_domain(domains[0]) == org_domain(domains[1])


def address_key(address: str) -> str:
    """Return an address as it is compared; what is none stands for itself."""
    try:
        return normalize(address)
    except (AddressInvalid, AddressUnsupported):
        return address.strip().lower()
