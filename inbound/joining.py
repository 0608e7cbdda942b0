"""Which thread a message belongs to: by token, by headers, or a new one.

Mailboxes, sections 3.1 and 3.3. A token files mail and authorises nothing; subjects
join nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from inbound.arrival import Destination
from inbound.parse import ParsedMail
from inbound.selectors import takes_part, thread_by_ids
from mailboxes.keyring_services import verifying_key
from mailboxes.models import Thread
from mailboxes.statuses import KeyPurpose
from mailboxes.thread_tokens import Absent, Invalid, Valid, Verdict, verify_token


@dataclass(frozen=True, slots=True)
class Joined:
    """The thread that a message goes into, None for a new one.

    ``is_unverified`` says that a stranger named it, or with a token that is not ours:
    to be shown, and no more. ``has_token`` that its token was good.
    """

    thread: Thread | None
    is_unverified: bool = False
    has_token: bool = False


def join(mail: ParsedMail, destination: Destination, *, now: datetime) -> Joined:
    """Return where a message belongs; joins the caller's, which holds the mailbox."""
    identity_id = destination.identity_id
    verdict = _verdict(destination, now=now)
    by_header = thread_by_ids(identity_id, ids_of(mail))
    sender = mail.sender.address if mail.sender else None
    if isinstance(verdict, Valid):
        named = Thread.objects.filter(identity_id=identity_id, seq=verdict.seq).first()
        if named is not None:
            is_known = named == by_header or takes_part(named, sender)
            return Joined(named, is_unverified=not is_known, has_token=True)
    is_forged = isinstance(verdict, Invalid)
    if by_header is None:
        return Joined(None, is_unverified=is_forged)
    return Joined(
        by_header, is_unverified=is_forged or not takes_part(by_header, sender)
    )


def ids_of(mail: ParsedMail) -> Sequence[str]:
    """Return the ids that a message names, the nearest first."""
    return [*dict.fromkeys([*mail.in_reply_to, *reversed(mail.references)])]


def _verdict(destination: Destination, *, now: datetime) -> Verdict:
    if destination.detail is None:
        return Absent()
    return verify_token(
        destination.detail,
        identity_id=destination.identity_id,
        key_of=lambda kid: verifying_key(KeyPurpose.THREAD, kid, now=now),
    )
