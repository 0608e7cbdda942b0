"""What SES's answers mean: pure, one table (outbound tables, section 5)."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from outbound.transports.base import (
    Accepted,
    Rejected,
    RejectReason,
    RetryClass,
    RetryLater,
    TransportResult,
    UncertainReason,
    Unknown,
)
from outbound.transports.told import starred

MESSAGE_ID: Final = re.compile(r"[!-~]{1,200}")
ERROR_TYPE: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.]{0,99}")
RESOURCE: Final = re.compile(r"\barn:\S+")
"""The name of something of the operator's account: no tenant's business."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """What an error type says of the message, and what the operator has to know."""

    verdict: RetryClass | RejectReason
    alert: str | None = None


ERRORS: Final[Mapping[str, Meaning]] = {
    "TooManyRequestsException": Meaning(RetryClass.RATE_LIMIT),
    "ThrottlingException": Meaning(RetryClass.RATE_LIMIT),
    "Throttling": Meaning(RetryClass.RATE_LIMIT),
    "LimitExceededException": Meaning(RetryClass.QUOTA, "provider_quota"),
    "AccountSuspendedException": Meaning(RetryClass.PAUSED, "ses_sending_paused"),
    "SendingPausedException": Meaning(RetryClass.PAUSED, "ses_sending_paused"),
    "MailFromDomainNotVerifiedException": Meaning(
        RejectReason.SENDER_DOMAIN_UNAVAILABLE
    ),
    "NotFoundException": Meaning(RejectReason.SENDER_DOMAIN_UNAVAILABLE),
    "MessageRejected": Meaning(RejectReason.PROVIDER_VALIDATION),
    "BadRequestException": Meaning(RejectReason.PROVIDER_VALIDATION),
}
OTHER: Final = Meaning(RejectReason.PROVIDER_VALIDATION)
"""Any other 4xx that has a type."""
ISSUES: Final[Mapping[str, str]] = {
    "MailFromDomainNotVerifiedException": "mail_from_failed",
    "NotFoundException": "ses_identity_not_verified",
}
"""What an error that blames the domain is called among the domain's issues."""


def accepted(answer: Mapping[str, Any]) -> TransportResult:
    """Return what a success means; without an id it is none that we know."""
    message_id = answer.get("MessageId")
    if isinstance(message_id, str) and MESSAGE_ID.fullmatch(message_id):
        return Accepted(provider_message_id=message_id)
    return Unknown(UncertainReason.CONNECTION_LOST, "an answer without MessageId")


def refused(answer: Mapping[str, Any], *, hidden: Collection[str]) -> TransportResult:
    """Return what an error means; ``hidden`` words are starred in what is told of it.

    ``answer`` is botocore's: the type in ``Error.Code``, where an answer that has none
    shows its status.
    """
    status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    error = answer.get("Error", {})
    code = str(error.get("Code") or "")
    if not ERROR_TYPE.fullmatch(code) or not 400 <= status < 500:
        typed = code if ERROR_TYPE.fullmatch(code) else "without a type"
        return Unknown(UncertainReason.CONNECTION_LOST, f"{status} {typed}")
    said = RESOURCE.sub("***", str(error.get("Message") or ""))
    printable = "".join(c if c.isprintable() else "?" for c in said)
    return _typed(code, starred(f"{status} {code}: {printable}", hidden))


def _typed(code: str, detail: str) -> TransportResult:
    meaning = ERRORS.get(code, OTHER)
    if isinstance(meaning.verdict, RetryClass):
        return RetryLater(meaning.verdict, code, detail, alert=meaning.alert)
    return Rejected(
        meaning.verdict, code, detail, issue=ISSUES.get(code), alert=meaning.alert
    )
