"""What a received message looks like: a person's, a machine's, a list's. Pure.

Mailboxes, section 4.4; the signs of a machine are those of RFC 3834, section 5, and
what is common beside it. A loop is recognised by the hops that its mail has gone.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from core.addresses import local_of
from inbound.parse import ParsedMail
from mailboxes.statuses import MessageKind

HOP_FIELD: Final = "x-pylota-mail-hop"
MOST_HOPS: Final = 10
"""A message that has gone so many was written by no person."""

_BOUNCED: Final = re.compile(
    r"undeliver|delivery status notification|mail delivery failed|returned mail"
    r"|failure notice",
    re.IGNORECASE,
)
_AWAY: Final = re.compile(
    r"\s*(?:(?:re|aw):\s*)?(?:out of (?:the )?office|automatic reply|auto-?reply"
    r"|auto-?response|abwesenheit|automatische antwort|absence du bureau"
    r"|r[ée]ponse automatique)",
    re.IGNORECASE,
)
_NO_REPLY: Final = re.compile(r"(?:no|do[-_.]?not)[-_.]?reply(?:[-_.+].*)?")
_REPORTERS: Final = frozenset({"mailer-daemon", "postmaster"})
_RETURNED: Final = frozenset({"message/rfc822", "text/rfc822-headers"})
_LIST_FIELDS: Final = ("list-id", "list-unsubscribe", "list-unsubscribe-post")
_LISTS: Final = frozenset({"list", "bulk"})
_MACHINES: Final = frozenset({"junk", "auto_reply"})


@dataclass(frozen=True, slots=True)
class Looks:
    """What a message is taken for, and why; None where nothing speaks of a machine."""

    kind: MessageKind
    automated: Mapping[str, Any] | None


def looks_of(mail: ParsedMail) -> Looks:
    """Return what a message looks like: the first kind of the table that fits."""
    evidence = list(_signs_of_a_machine(mail))
    hop = hop_in(mail)
    automated: dict[str, Any] = {"hop": hop} if hop else {}
    if evidence:
        automated["evidence"] = evidence
    fitting = (kind for kind, fits in _KINDS if fits(mail))
    kind = next(fitting, None)
    if kind is None and evidence:
        kind = MessageKind.AUTOMATED
    if kind is None:
        kind = MessageKind.CALENDAR if mail.has_calendar else MessageKind.NORMAL
    return Looks(kind, automated or None)


def hop_in(mail: ParsedMail) -> int:
    """Return the hop that a message came with; 0 without a readable one."""
    value = mail.fields.first(HOP_FIELD)
    return int(value) if re.fullmatch(r"[0-9]{1,6}", value) else 0


def _is_bounce(mail: ParsedMail) -> bool:
    if mail.report_type.lower() == "delivery-status":
        return True
    return (
        _sender_is(mail, _REPORTERS)
        and _BOUNCED.search(mail.subject) is not None
        and any(file.content_type in _RETURNED for file in mail.files)
    )


def _is_receipt(mail: ParsedMail) -> bool:
    return mail.report_type.lower() == "disposition-notification"


def _is_of_a_list(mail: ParsedMail) -> bool:
    return any(map(mail.fields.has, _LIST_FIELDS)) or _precedence(mail) in _LISTS


_KINDS: Final[tuple[tuple[MessageKind, Callable[[ParsedMail], bool]], ...]] = (
    (MessageKind.DSN, _is_bounce),
    (MessageKind.MDN, _is_receipt),
    (MessageKind.LIST, _is_of_a_list),
)


def _signs_of_a_machine(mail: ParsedMail) -> Iterator[str]:
    fields = mail.fields
    if (
        fields.has("auto-submitted")
        and _first_word(fields.first("auto-submitted")) != "no"
    ):
        yield "auto_submitted"
    if fields.has("x-autoreply") or fields.has("x-autorespond"):
        yield "autoreply_header"
    wishes = re.split(r"[\s,]+", fields.first("x-auto-response-suppress").lower())
    if {"all", "oof"} & set(wishes):
        yield "response_suppressed"
    if _precedence(mail) in _MACHINES:
        yield "precedence"
    if _AWAY.match(mail.subject):
        yield "out_of_office"
    if mail.sender and _NO_REPLY.fullmatch(local_of(mail.sender.address)):
        yield "no_reply_sender"
    if fields.first("return-path").strip() == "<>":
        yield "null_sender"
    if hop_in(mail) >= MOST_HOPS:
        yield "hop_limit"


def _precedence(mail: ParsedMail) -> str:
    return mail.fields.first("precedence").lower()


def _first_word(value: str) -> str:
    return re.split(r"[\s;(]", value.lower(), maxsplit=1)[0]


def _sender_is(mail: ParsedMail, names: frozenset[str]) -> bool:
    return mail.sender is not None and local_of(mail.sender.address) in names
