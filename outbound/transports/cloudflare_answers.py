"""What Cloudflare answered, and what that means: pure, one table.

Outbound tables, section 5; architecture, section 6. Whatever stands in no row is
unknown: the send may have happened.
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from core.http_answer import Answer
from outbound.transports.base import (
    Accepted,
    RecipientSuppressed,
    Rejected,
    RejectReason,
    RetryClass,
    RetryLater,
    TransportResult,
    UncertainReason,
    Unknown,
)
from outbound.transports.told import starred

PAUSED_ALERT: Final = "cloudflare_sending_paused"
QUOTA_ALERT: Final = "provider_quota"
RECIPIENT_ALERT: Final = "cloudflare_recipient_not_allowed"


@dataclass(frozen=True, slots=True)
class Row:
    """What an error means: why it is final, or when to try again; else unknown."""

    verdict: RejectReason | RetryClass | None
    alert: str | None = None


_INVALID: Final = Row(RejectReason.PROVIDER_VALIDATION)
_NO_SENDER: Final = Row(RejectReason.SENDER_DOMAIN_UNAVAILABLE)
_PAUSED: Final = Row(RetryClass.PAUSED, PAUSED_ALERT)
UNKNOWN: Final = Row(None)

SUFFIXES: Final[Mapping[str, Row]] = {
    "invalid_request_schema": _INVALID,
    "email.too_big": _INVALID,
    "email.no_content_length": _INVALID,
    "email.invalid": _INVALID,
    "throttled": Row(RetryClass.RATE_LIMIT),
    "email.sending_disabled": _PAUSED,
    "not_entitled": _PAUSED,
    "forbidden": _PAUSED,
    "unauthorized": _PAUSED,
    "bad_token_type": _PAUSED,
    "authentication.upstream": _PAUSED,
    "internal_server": UNKNOWN,
}
"""Rows by the last words of the message: the numbers moved between versions."""

CODES: Final[Mapping[str, Row]] = {
    "E_VALIDATION_ERROR": _INVALID,
    "E_FIELD_MISSING": _INVALID,
    "E_TOO_MANY_RECIPIENTS": _INVALID,
    "E_TOO_MANY_ATTACHMENTS": _INVALID,
    "E_CONTENT_TOO_LARGE": _INVALID,
    "E_HEADER_NOT_ALLOWED": _INVALID,
    "E_HEADER_USE_API_FIELD": _INVALID,
    "E_HEADER_VALUE_INVALID": _INVALID,
    "E_HEADER_VALUE_TOO_LONG": _INVALID,
    "E_HEADER_NAME_INVALID": _INVALID,
    "E_HEADERS_TOO_LARGE": _INVALID,
    "E_HEADERS_TOO_MANY": _INVALID,
    "E_DELIVERY_FAILED": _INVALID,
    "E_RECIPIENT_NOT_ALLOWED": Row(RejectReason.PROVIDER_VALIDATION, RECIPIENT_ALERT),
    "E_SENDER_DOMAIN_NOT_AVAILABLE": _NO_SENDER,
    "E_SENDER_NOT_VERIFIED": _NO_SENDER,
    "E_RECIPIENT_SUPPRESSED": Row(RejectReason.RECIPIENT_SUPPRESSED),
    "E_RATE_LIMIT_EXCEEDED": Row(RetryClass.RATE_LIMIT),
    "E_DAILY_LIMIT_EXCEEDED": Row(RetryClass.QUOTA, QUOTA_ALERT),
    "E_INTERNAL_SERVER_ERROR": UNKNOWN,
}
"""Rows by code, where the answer names one."""

_CODE: Final = re.compile(r"\s*(?:[a-z0-9_]+\.)*(E_[A-Z_]+)\b")
"""A code begins its field or its message: further on stand words that we sent."""
_NAME: Final = re.compile(r"[^\s@]+")
_SUPPRESSION: Final = re.compile("suppress", re.IGNORECASE)
_REPEATED: Final = re.compile(r"\S*@\S*|\bX-[\w-]+", re.IGNORECASE)
"""An address, or the name of a caller's header, repeated from what we sent."""
_OPAQUE: Final = re.compile(r"[!-~]{1,2048}")
_REASON: Final = re.compile(r"[a-z_]{1,32}")


@dataclass(frozen=True, slots=True)
class ProviderError:
    """One entry of ``errors``."""

    code: str
    message: str

    @property
    def words(self) -> str:
        """Return the word of the code, or the message that stands for it."""
        named = _CODE.match(self.code) or _CODE.match(self.message)
        return named[1] if named else self.message.strip()

    def row(self) -> Row:
        """Return what this error means; one that names suppression is of that kind."""
        row = self._listed()
        may_be_about_recipients = row is None or row is _INVALID
        if may_be_about_recipients and self._names_suppression():
            return CODES["E_RECIPIENT_SUPPRESSED"]
        return row or UNKNOWN

    def _listed(self) -> Row | None:
        words = self.words
        if words in CODES:
            return CODES[words]
        if _NAME.fullmatch(words):
            for suffix, row in SUFFIXES.items():
                if words == suffix or words.endswith(f".{suffix}"):
                    return row
        return None

    def _names_suppression(self) -> bool:
        if self.words.startswith("E_HEADER"):  # about a header, whatever it is called
            return False
        told = _REPEATED.sub("", f"{self.code} {self.message}")
        return _SUPPRESSION.search(told) is not None

    def __str__(self) -> str:
        return " ".join(filter(None, (self.code, self.message)))


def result_of(answer: Answer, *, hidden: Collection[str]) -> TransportResult:
    """Return how a call ended that was answered.

    The envelope decides beside the status: an error may come with a 200. ``hidden``
    are words that no detail may hold.
    """
    envelope = _object(answer.body)
    errors = tuple(_errors(envelope))
    if envelope.get("success") is False and errors:
        return _refused(answer, errors, hidden)
    result = envelope.get("result")
    is_good = envelope.get("success") is True and answer.status in range(200, 300)
    if is_good and not errors and isinstance(result, dict):
        return _accepted(result)
    return _unknown(f"HTTP {answer.status} without an answer that says what became")


def _refused(
    answer: Answer, errors: tuple[ProviderError, ...], hidden: Collection[str]
) -> TransportResult:
    """Return what several errors mean: unknown if one of them is."""
    told = f"HTTP {answer.status} {'; '.join(map(str, errors))}"
    detail = starred(told, hidden)
    rows = [error.row() for error in errors]
    verdicts = [row.verdict for row in rows]
    is_about_recipients = RejectReason.RECIPIENT_SUPPRESSED in verdicts
    # a server that failed while it asked its list has refused nobody
    if None in verdicts or (is_about_recipients and answer.status >= 500):
        return _unknown(detail)
    if is_about_recipients:
        error = errors[verdicts.index(RejectReason.RECIPIENT_SUPPRESSED)]
        return RecipientSuppressed(starred(error.words, hidden), detail)
    return _definite(rows[0], starred(errors[0].words, hidden), detail)


def _definite(row: Row, code: str, detail: str) -> TransportResult:
    if isinstance(row.verdict, RetryClass):
        return RetryLater(row.verdict, code, detail, alert=row.alert)
    assert row.verdict is not None  # noqa: S101  an unknown one was answered before
    is_domain = row.verdict is RejectReason.SENDER_DOMAIN_UNAVAILABLE
    issue = str(row.verdict) if is_domain else None
    return Rejected(row.verdict, code, detail, issue=issue, alert=row.alert)


def _accepted(result: Mapping[str, Any]) -> Accepted:
    """Return an acceptance; older answers hold neither an id nor the suppressed."""
    return Accepted(
        provider_message_id=_word(result.get("message_id")),
        bounced=_addresses(result.get("permanent_bounces")),
        suppressed=_addresses(result.get("suppressed_recipients")),
    )


def _unknown(detail: str) -> Unknown:
    return Unknown(UncertainReason.CONNECTION_LOST, detail)


# --- what stands in an answer --------------------------------------------------------


def _object(body: bytes) -> dict[str, Any]:
    """Return a body as a JSON object; anything else is an empty one."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _errors(envelope: Mapping[str, Any]) -> Iterator[ProviderError]:
    listed = envelope.get("errors")
    for error in listed if isinstance(listed, list) else ():
        entry = error if isinstance(error, dict) else {"message": error}
        yield ProviderError(_text(entry.get("code")), _text(entry.get("message")))


def _text(value: object) -> str:
    """Return what stands somewhere in an answer as words that can be kept."""
    text = "" if value is None else str(value)[:1024]
    return "".join(c if c.isprintable() else "?" for c in text)


def _word(value: object) -> str | None:
    """Return an opaque id or cursor; None for what can be none."""
    is_word = isinstance(value, str) and _OPAQUE.fullmatch(value)
    return str(value) if is_word else None


def _addresses(value: object) -> tuple[str, ...]:
    listed: Iterable[object] = value if isinstance(value, list) else ()
    return tuple(each.lower() for each in listed if isinstance(each, str))


# --- the suppression list ------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Page:
    """One page of the suppression list, as far as it is about one recipient.

    ``reason`` is why the recipient is suppressed, None if nothing here says that they
    are; ``cursor`` names the next page.
    """

    reason: str | None
    cursor: str | None


def page_of(answer: Answer, *, address: str, domain: str) -> Page | None:
    """Return a page of the suppressions; None for an answer that is none.

    An entry counts whose scope is the account (older answers know no other) or this
    sending domain.
    """
    envelope = _object(answer.body)
    listed = envelope.get("result")
    if answer.status != 200 or envelope.get("success") is not True:
        return None
    if not isinstance(listed, list):
        return None
    reasons = (
        _reason(entry)
        for entry in listed
        if isinstance(entry, dict) and _is_about(entry, address, domain)
    )
    info = envelope.get("result_info")
    cursor = info.get("next_cursor") if isinstance(info, dict) else None
    return Page(next(reasons, None), _word(cursor))


def _is_about(entry: Mapping[str, Any], address: str, domain: str) -> bool:
    email, scope = entry.get("email"), entry.get("scope")
    if not isinstance(email, str) or email.lower() != address:
        return False
    parts = scope.values() if isinstance(scope, dict) else (scope,)
    named = {str(part).lower() for part in (*parts, entry.get("domain"))}
    return scope is None or not named.isdisjoint({"account", domain})


def _reason(entry: Mapping[str, Any]) -> str:
    reason = _text(entry.get("reason"))
    return reason if _REASON.fullmatch(reason) else "unknown"
