"""What is made of a message before it is written down: kind, thread, trust, flags.

Mailboxes, section 4.3, steps 5 and 6. Reads under the mailbox's lock; joins the
caller's transaction.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from core.addresses import domain_of, org_domain
from domains.statuses import DomainKind
from inbound.arrival import Destination, delivered_to, is_bcc
from inbound.classify import Looks, looks_of
from inbound.joining import Joined, join
from inbound.letter import Letter
from inbound.selectors import SenderFacts, sender_facts
from mailboxes.statuses import MessageKind, MessageStatus

LOOPBACK: Final = "loopback"
"""The flag of mail that never left this deployment, and the source of its verdict."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What was made of a message before it is written down."""

    looks: Looks
    joined: Joined
    sender: SenderFacts | None
    verdict: str
    delivered_to: str
    is_bcc: bool

    @property
    def is_known_sender(self) -> bool:
        """Tell whether the sender is trusted; the platform domain is never enough."""
        sender = self.sender
        return sender is not None and (
            sender.was_written_to
            or sender.is_allowed
            or (sender.domain_kind == DomainKind.EXTERNAL and self.verdict == "pass")
        )

    @property
    def status(self) -> MessageStatus:
        """Return whether the message is shown: not if blocked, nor a bounce report."""
        is_blocked = self.sender is not None and self.sender.is_blocked
        if is_blocked or self.looks.kind == MessageKind.DSN:
            return MessageStatus.HIDDEN
        return MessageStatus.RECEIVED


def judge(
    letter: Letter, destination: Destination, *, is_own_tenant: bool, now: datetime
) -> Judged:
    """Return what is made of a message in this mailbox."""
    mail = letter.mail
    meant = delivered_to(destination, mail.named)
    verdict = "pass" if is_own_tenant else "none"
    if len(mail.senders) > 1 and verdict == "pass":
        verdict = "unaligned"
    return Judged(
        looks=looks_of(mail),
        joined=join(mail, destination, now=now),
        sender=sender_facts(mail.sender.address, destination) if mail.sender else None,
        verdict=verdict,
        delivered_to=meant,
        is_bcc=is_bcc(meant, mail.named),
    )


def flags_of(letter: Letter, judged: Judged, *, is_own_tenant: bool) -> list[str]:
    """Return what is to be told of a message and of its sender."""
    mail, sender = letter.mail, judged.sender
    is_shared = sender is not None and sender.domain_kind == DomainKind.PLATFORM
    said = {
        LOOPBACK: True,
        "bcc": judged.is_bcc,
        "parse_degraded": mail.is_degraded,
        "encrypted": mail.is_encrypted,
        "body_truncated": letter.bodies.is_truncated,
        "sender_suppressed": sender is not None and sender.is_suppressed,
        "hidden_text": letter.bodies.has_hidden_text,
        "reply_to_mismatch": _answers_go_elsewhere(letter),
        "thread_join_unverified": judged.joined.is_unverified,
        "shared_domain_sender": is_shared and not is_own_tenant,
    }
    return [flag for flag, is_set in said.items() if is_set]


def _answers_go_elsewhere(letter: Letter) -> bool:
    mail = letter.mail
    if mail.sender is None or not mail.reply_to:
        return False
    wanted, sender = domain_of(mail.reply_to[0].address), domain_of(mail.sender.address)
    return org_domain(wanted) != org_domain(sender)
