"""What an event of SES says of a delivery: pure (outbound tables, section 7).

The text is proved to be SES's, so whatever can be read of it is used: a word that has
not the documented form costs the event that word, not the event.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from core.addresses import normalize
from core.errors import AddressInvalid, AddressUnsupported
from core.ids import is_id
from delivery.events import DeliveryEvent
from delivery.statuses import DeliveryKind, EventSource
from mailboxes.threading import normalize_message_id

TAG: Final = "pylota_message"
"""The tag that each send bears; its value is the message's id."""
ON_A_LIST: Final = frozenset({"Suppressed", "OnAccountSuppressionList"})
"""Sub-types of a bounce that SES made itself: the address stands on its list."""
OLDEST: Final = timedelta(days=366)
LONGEST_WORD: Final = 998
LONGEST_RESPONSE: Final = 512

_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")
_ADDRESS: Final = re.compile(r"<([^<>]*)>\s*$")
_SMTP_CODE: Final = re.compile(r"^\s*(?:smtp\s*;)?\s*([2-5]\d\d)\b", re.IGNORECASE)
_ENHANCED: Final = re.compile(r"\b([245]\.\d{1,3}\.\d{1,3})\b")


Part = Mapping[str, Any]


class NoEvent(Exception):
    """The text is no event of a known type, or tells of no recipient."""


@dataclass(frozen=True, slots=True)
class _Said:
    """What an event says of one recipient."""

    recipient: object
    kind: DeliveryKind
    at: object = None
    hard: bool = False
    by_provider_list: bool = False
    enhanced_code: object = None
    response: object = None
    rfc_message_id: str | None = None


def events_of(
    text: str, *, notification_id: str, published_at: datetime, now: datetime
) -> list[DeliveryEvent]:
    """Return what one notification says, an event for each recipient; raises NoEvent.

    ``published_at`` stands in for an instant of the event that cannot be right.
    """
    event = _parsed(text)
    mail = _part(event, "mail")
    reader = _READERS.get(str(event.get("eventType")), _nothing)
    found: dict[str, DeliveryEvent] = {}
    for said in reader(event, mail):
        recipient = _address(said.recipient)
        if recipient is None or recipient in found:
            continue
        instants = (_instant(said.at), _instant(mail.get("timestamp")), published_at)
        found[recipient] = _event(
            said,
            mail,
            recipient=recipient,
            event_id=f"ses:{notification_id}:{recipient}",
            occurred_at=_likely(instants, now=now),
        )
    if not found:
        raise NoEvent
    return list(found.values())


def _event(
    said: _Said, mail: Part, *, recipient: str, event_id: str, occurred_at: datetime
) -> DeliveryEvent:
    enhanced = _code(_ENHANCED, said.enhanced_code) or _code(_ENHANCED, said.response)
    return DeliveryEvent(
        source=EventSource.SES,
        event_id=event_id,
        provider_message_id=_word(mail.get("messageId")),
        sender=_sender(mail),
        recipient=recipient,
        kind=said.kind,
        occurred_at=occurred_at,
        subject=_subject(mail),
        hard=said.hard,
        smtp_code=_code(_SMTP_CODE, said.response),
        enhanced_code=enhanced,
        smtp_response=_shown(said.response),
        tag=_tag(mail),
        by_provider_list=said.by_provider_list,
        rfc_message_id=said.rfc_message_id,
    )


# --- a reader for each type ----------------------------------------------------------


def _nothing(event: Part, mail: Part) -> Iterator[_Said]:
    """Tell nothing: the type is one that was not asked for."""
    return iter(())


def _sent(event: Part, mail: Part) -> Iterator[_Said]:
    """Tell of the mail, not of its recipients: one event, under the first of them."""
    given = _word(_part(mail, "commonHeaders").get("messageId"))
    if given is not None:
        known = normalize_message_id(given) or given
        for recipient in _list(mail, "destination")[:1]:
            yield _Said(recipient, DeliveryKind.SENT, rfc_message_id=known)


def _delivered(event: Part, mail: Part) -> Iterator[_Said]:
    told = _part(event, "delivery")
    for recipient in _list(told, "recipients"):
        yield _Said(
            recipient,
            DeliveryKind.DELIVERED,
            at=told.get("timestamp"),
            response=told.get("smtpResponse"),
        )


def _bounced(event: Part, mail: Part) -> Iterator[_Said]:
    told = _part(event, "bounce")
    is_hard = told.get("bounceType") == "Permanent"  # nobody is suppressed on a guess
    for one in _parts(told, "bouncedRecipients"):
        yield _Said(
            one.get("emailAddress"),
            DeliveryKind.BOUNCED,
            at=told.get("timestamp"),
            hard=is_hard,
            by_provider_list=is_hard and told.get("bounceSubType") in ON_A_LIST,
            enhanced_code=one.get("status"),
            response=one.get("diagnosticCode"),
        )


def _complained(event: Part, mail: Part) -> Iterator[_Said]:
    told = _part(event, "complaint")
    for one in _parts(told, "complainedRecipients"):
        recipient, at = one.get("emailAddress"), told.get("timestamp")
        yield _Said(recipient, DeliveryKind.COMPLAINED, at=at)


def _delayed(event: Part, mail: Part) -> Iterator[_Said]:
    told = _part(event, "deliveryDelay")
    for one in _parts(told, "delayedRecipients"):
        yield _Said(
            one.get("emailAddress"),
            DeliveryKind.DEFERRED,
            at=told.get("timestamp"),
            enhanced_code=one.get("status"),
            response=one.get("diagnosticCode"),
        )


def _rejected(event: Part, mail: Part) -> Iterator[_Said]:
    refused, unmade = _part(event, "reject"), _part(event, "failure")
    why = refused.get("reason") or unmade.get("errorMessage")
    for recipient in _list(mail, "destination"):
        yield _Said(recipient, DeliveryKind.REJECTED, response=why)


_READERS: Final[Mapping[str, Callable[[Part, Part], Iterator[_Said]]]] = {
    "Send": _sent,
    "Delivery": _delivered,
    "Bounce": _bounced,
    "Complaint": _complained,
    "DeliveryDelay": _delayed,
    "Reject": _rejected,
    "Rendering Failure": _rejected,
}


# --- what stands in an event ---------------------------------------------------------


def _parsed(text: str) -> Part:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise NoEvent from None
    if not isinstance(found, dict):
        raise NoEvent
    return found


def _part(event: Part, name: str) -> Part:
    part = event.get(name)
    return part if isinstance(part, dict) else {}


def _list(event: Part, name: str) -> list[Any]:
    found = event.get(name)
    return found if isinstance(found, list) else []


def _parts(event: Part, name: str) -> Iterator[Part]:
    return (one for one in _list(event, name) if isinstance(one, dict))


def _sender(mail: Part) -> str:
    """Return the first From address; SES names the envelope's where it has no other."""
    authors = _list(_part(mail, "commonHeaders"), "from")
    candidates = (_address(one) for one in (*authors[:1], mail.get("source")))
    return next(filter(None, candidates), "")


def _address(value: object) -> str | None:
    """Return an address in its one form, whatever name stands before it."""
    if not isinstance(value, str):
        return None
    bracketed = _ADDRESS.search(value)
    raw = bracketed[1] if bracketed else value
    try:
        return normalize(raw)
    except (AddressInvalid, AddressUnsupported):
        return None


def _subject(mail: Part) -> str | None:
    subject = _part(mail, "commonHeaders").get("subject")
    return _UNSTORABLE.sub("?", subject) if isinstance(subject, str) else None


def _tag(mail: Part) -> str | None:
    values = _list(_part(mail, "tags"), TAG)
    known = (one for one in values if isinstance(one, str) and is_id(one, "msg"))
    return next(known, None)


def _word(value: object) -> str | None:
    is_word = isinstance(value, str) and 0 < len(value) <= LONGEST_WORD
    return str(value) if is_word and str(value).isprintable() else None


def _shown(value: object) -> str | None:
    """Return a server's words on one line, cut to what is stored."""
    if not isinstance(value, str):
        return None
    kept = "".join(c if c.isprintable() else " " for c in value[:4096])
    return " ".join(kept.split())[:LONGEST_RESPONSE] or None


def _code(form: re.Pattern[str], value: object) -> str | None:
    found = form.search(value) if isinstance(value, str) else None
    return found[1] if found else None


def _instant(value: object) -> datetime | None:
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) else None
        return found.astimezone(UTC) if found and found.tzinfo else None
    except (ValueError, OverflowError):
        return None


def _likely(instants: Iterable[datetime | None], *, now: datetime) -> datetime:
    """Return the first instant of the last year; now, if there is none."""
    known = (at for at in instants if at is not None)
    return next((at for at in known if now - OLDEST <= at <= now), now)
