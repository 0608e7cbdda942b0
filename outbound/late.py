"""An outcome that comes after its claim has ended: evidence, and sometimes an answer.

The claim alarm has made the message uncertain meanwhile; an acceptance that arrives
now settles that, and nothing is queued again (architecture, section 4).
"""

from collections.abc import Collection
from datetime import datetime

from core import metrics
from delivery import announcements
from delivery.changes import (
    announce,
    move,
    name_provider,
    settle_status,
)
from delivery.statuses import AttemptResult, DeliveryStatus
from mailboxes.models import Message
from mailboxes.services import audit, raise_alert
from mailboxes.statuses import Evidence, Provider, Severity
from outbound.handing_over import hand_over
from outbound.outcomes import Outcome
from outbound.settling import give_up, store_bounces, sync_suppressions
from outbound.transports.loopback import TEST_PROVIDERS


def settle_late(
    message: Message,
    outcome: Outcome,
    *,
    provider: Provider,
    recipients: Collection[str],
    now: datetime,
) -> None:
    """Let a late acceptance settle what is still uncertain; all else stays.

    Joins the caller's transaction, which holds the message and has written the outcome
    on the attempt's row.
    """
    if outcome.result != AttemptResult.ACCEPTED:
        return
    store_bounces(message, outcome, provider=provider, now=now)
    called = message.deliveries.filter(address__in=recipients)
    if called.filter(status=DeliveryStatus.UNCERTAIN).exists():
        _reconcile(message, outcome, now=now)
    elif called.filter(reason="resolved_not_sent").exists():
        _contradict(message, outcome)
    elif message.provider_message_id is None:
        message.provider_message_id = outcome.provider_message_id
        message.save(update_fields=["provider_message_id"])
        _hand_over(message, outcome, now=now)


def _reconcile(message: Message, outcome: Outcome, *, now: datetime) -> None:
    name_provider(message)
    message.provider_message_id = outcome.provider_message_id
    message.rfc_message_id = outcome.rfc_message_id or message.rfc_message_id
    message.flags = [*dict.fromkeys([*message.flags, "reconciled"])]
    message.evidence = Evidence.LATE_OUTCOME
    metrics.count(metrics.RECONCILED, str(message.provider))
    message.save(
        update_fields=[
            "provider",
            "provider_message_id",
            "rfc_message_id",
            "flags",
            "evidence",
        ]
    )
    moved = move(
        message,
        (*outcome.changes, *give_up(outcome.waiting)),
        from_={DeliveryStatus.UNCERTAIN},
        now=now,
    )
    _hand_over(message, outcome, now=now)
    suppressed = sync_suppressions(message, outcome.changes, now=now)
    rolled = settle_status(message, charged=moved.charged, now=now)
    reconciled = announcements.of_reconciled(message)
    announce(message, [reconciled, *rolled, *suppressed], now=now)


def _hand_over(message: Message, outcome: Outcome, *, now: datetime) -> None:
    """A copy for a mailbox of ours goes nowhere unless the record hands it over."""
    if message.provider in TEST_PROVIDERS:
        hand_over(message, outcome, now=now)


def _contradict(message: Message, outcome: Outcome) -> None:
    """Keep a person's answer, and say that the transport disagrees."""
    details = {"provider_message_id": outcome.provider_message_id}
    raise_alert(
        "late_outcome_contradicts_resolve",
        subject=message.public_id,
        severity=Severity.TICKET,
        details=details,
    )
    audit(
        "message.late_outcome",
        tenant_id=message.tenant_id,
        target_type="message",
        target_id=message.public_id,
        details=details,
    )
