"""What the end of a transport call means for its recipients: pure, one table.

Outbound tables, section 5. The result is a closed sum, so the type checker finds a case
that is missing here.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import assert_never

from delivery.changes import DeliveryChange
from delivery.statuses import AttemptResult, DeliveryStatus
from outbound.transports.base import (
    Accepted,
    RecipientRefusal,
    RecipientSuppressed,
    Rejected,
    RejectReason,
    RetryClass,
    RetryLater,
    TransportResult,
    Unknown,
)
from suppressions.statuses import SuppressionReason

PROVIDER_VALIDATION = "provider_validation"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What to write down of a call.

    ``retry`` says that the recipients in ``waiting`` are tried again, by which
    back-off; ``uncertain`` that the message itself is in doubt. Those in ``bounced``
    were taken, and have bounced at once.
    """

    result: AttemptResult
    changes: tuple[DeliveryChange, ...] = ()
    waiting: tuple[str, ...] = ()
    bounced: tuple[str, ...] = ()
    retry: RetryClass | None = None
    uncertain: bool = False
    reason: str | None = None
    code: str | None = None
    detail: str | None = None
    provider_message_id: str | None = None
    rfc_message_id: str | None = None


def outcome_of(result: TransportResult, *, queued: Collection[str]) -> Outcome:
    """Return what a result means for the recipients that were still queued."""
    match result:
        case Accepted():
            return _accepted(result, queued)
        case Rejected():
            return _rejected(result, queued)
        case RecipientSuppressed():  # nobody can tell which, or too often
            return _rejected(
                Rejected(RejectReason.RECIPIENT_SUPPRESSED, result.code, result.detail),
                queued,
            )
        case RetryLater():
            return _retry_later(result, queued)
        case Unknown():
            return Outcome(
                AttemptResult.UNCERTAIN,
                changes=_all(queued, DeliveryStatus.UNCERTAIN),
                uncertain=True,
                reason=str(result.reason),
                code=str(result.reason),
                detail=result.detail,
            )
    assert_never(result)


def _accepted(result: Accepted, queued: Collection[str]) -> Outcome:
    refused = _refusals(result.refused)
    dropped = provider_suppressed(
        {address: "dropped" for address in result.suppressed if address in queued}
    )
    named = {change.address for change in (*refused, *dropped)}
    waiting = tuple(sorted(set(result.deferred) & set(queued) - named))
    taken = set(queued) - named - set(waiting)
    return Outcome(
        AttemptResult.ACCEPTED,
        changes=(*_all(taken, DeliveryStatus.SUBMITTED), *refused, *dropped),
        waiting=waiting,
        bounced=tuple(sorted(taken.intersection(result.bounced))),
        retry=RetryClass.RELAY if waiting else None,
        detail=result.detail or None,
        provider_message_id=result.provider_message_id,
        rfc_message_id=result.rfc_message_id,
    )


def _rejected(result: Rejected, queued: Collection[str]) -> Outcome:
    refused = _refusals(result.refused)
    rest = set(queued) - {change.address for change in refused}
    return Outcome(
        AttemptResult.REJECTED,
        changes=(
            *refused,
            *_all(
                rest,
                DeliveryStatus.REJECTED,
                reason=str(result.reason),
                smtp_response=result.detail,
            ),
        ),
        reason=str(result.reason),
        code=result.code,
        detail=result.detail,
    )


def _retry_later(result: RetryLater, queued: Collection[str]) -> Outcome:
    refused = _refusals(result.refused)
    waiting = set(queued) - {change.address for change in refused}
    return Outcome(
        AttemptResult.RETRY,
        changes=refused,
        waiting=tuple(sorted(waiting)),
        retry=result.retry_class,
        reason=PROVIDER_VALIDATION if refused else None,
        code=result.code,
        detail=result.detail or None,
    )


def provider_suppressed(found: Mapping[str, str]) -> tuple[DeliveryChange, ...]:
    """Return what becomes of recipients whom the provider suppresses, by its reason."""
    return tuple(
        DeliveryChange(
            address=address,
            status=DeliveryStatus.SUPPRESSED,
            reason=SuppressionReason.PROVIDER,
            smtp_response=f"provider: suppressed ({reason})",
        )
        for address, reason in sorted(found.items())
    )


def _refusals(refused: Collection[RecipientRefusal]) -> tuple[DeliveryChange, ...]:
    return tuple(
        DeliveryChange(
            address=refusal.address,
            status=DeliveryStatus.REJECTED,
            reason=PROVIDER_VALIDATION,
            smtp_code=refusal.code,
            smtp_response=refusal.detail,
        )
        for refusal in refused
    )


def _all(
    addresses: Collection[str],
    status: DeliveryStatus,
    *,
    reason: str | None = None,
    smtp_response: str | None = None,
) -> tuple[DeliveryChange, ...]:
    return tuple(
        DeliveryChange(address, status, reason=reason, smtp_response=smtp_response)
        for address in sorted(addresses)
    )
