"""How a queued message goes on, or ends: the parts of a claim's two transactions.

Everything here joins the caller's transaction, which holds the message, but for
``put_off``, which is one of its own.
"""

import random
from collections.abc import Sequence
from datetime import datetime
from typing import assert_never

import structlog
from django.conf import settings
from django.db import transaction

from core import metrics
from core.clock import database_now
from delivery import inbox
from delivery.changes import (
    DeliveryChange,
    announce,
    keep_held,
    lock_message,
    move,
    release_thread,
    settle_status,
    statuses_of,
)
from delivery.events import DeliveryEvent
from delivery.models import Attempt, OutboundState
from delivery.reconcile import look_again_at_orphans
from delivery.statuses import (
    AttemptPhase,
    AttemptResult,
    DeliveryKind,
    DeliveryStatus,
    EventSource,
)
from mailboxes.models import Message
from mailboxes.services import NewEvent, audit
from mailboxes.statuses import MessageStatus, Provider
from outbound.backoff import next_attempt
from outbound.breaker import due_behind
from outbound.departure import Refuse, Stop, Wait
from outbound.fallback import come_back
from outbound.handing_over import hand_over
from outbound.outcomes import Outcome
from outbound.transports.base import RetryClass, UncertainReason
from outbound.transports.loopback import TEST_PROVIDERS
from quota import services as quota
from suppressions.services import NewSuppression, suppress
from suppressions.statuses import SuppressionReason

log = structlog.get_logger()

QUOTA_EXHAUSTED = "quota_exhausted"
UNSENT = frozenset({DeliveryStatus.QUEUED, DeliveryStatus.SUPPRESSED})


def settle(
    message: Message,
    state: OutboundState,
    outcome: Outcome,
    *,
    provider: Provider,
    now: datetime,
) -> None:
    """Record the outcome of the call that holds the claim."""
    if outcome.result == AttemptResult.ACCEPTED:
        message.provider = provider
        message.provider_message_id = (
            outcome.provider_message_id or message.provider_message_id
        )
        message.rfc_message_id = outcome.rfc_message_id or message.rfc_message_id
        message.save(
            update_fields=["provider", "provider_message_id", "rfc_message_id"]
        )
    changes, reason, retry_at = outcome.changes, outcome.reason, None
    if outcome.retry is not None:
        retry_at = _retry_at(message, state, outcome.retry, now=now)
        if retry_at is None:
            changes = (*changes, *give_up(outcome.waiting))
            reason = QUOTA_EXHAUSTED
    if outcome.retry is not None or outcome.result == AttemptResult.REJECTED:
        come_back(message, state)
    moved = move(message, changes, from_={DeliveryStatus.QUEUED}, now=now)
    if provider in TEST_PROVIDERS:
        hand_over(message, outcome, now=now)
    suppressed = sync_suppressions(message, changes, now=now)
    events = settle_status(
        message,
        charged=moved.charged,
        now=now,
        status=MessageStatus.UNCERTAIN if outcome.uncertain else None,
        reason=reason,
        detail=outcome.detail,
        retry_at=retry_at,
    )
    if message.status == MessageStatus.QUEUED:
        _back_off(message, state, until=retry_at or now, now=now)
    if message.status == MessageStatus.UNCERTAIN:
        _turned_uncertain(message, state, moved.addresses, provider=provider, now=now)
    store_bounces(message, outcome, provider=provider, now=now)
    announce(message, [*events, *suppressed], now=now)


def sync_suppressions(
    message: Message, changes: Sequence[DeliveryChange], *, now: datetime
) -> list[NewEvent]:
    """Suppress whom the provider suppresses, and return the events to publish.

    The page, "Provider suppressions and resending". Joins the caller's transaction.
    """
    return suppress(
        [
            NewSuppression(change.address, SuppressionReason.PROVIDER)
            for change in changes
            if change.reason == SuppressionReason.PROVIDER
        ],
        tenant_id=message.tenant_id,
        source_message_id=message.public_id,
        now=now,
    )


def store_bounces(
    message: Message, outcome: Outcome, *, provider: Provider, now: datetime
) -> None:
    """Store the bounces that came with the answer, as the events they are.

    Due at once, in the transaction of the record that they follow.
    """
    events = [
        DeliveryEvent(
            source=EventSource(provider),
            event_id=f"cf:{message.public_id}:{address}:sync",
            provider_message_id=outcome.provider_message_id,
            tag=message.public_id,
            sender=message.from_address or "",
            recipient=address,
            kind=DeliveryKind.BOUNCED,
            occurred_at=now,
            subject=message.subject,
            hard=True,
            smtp_response="the provider says: permanently bounced",
        )
        for address in outcome.bounced
    ]
    inbox.store(events, due_at=[now] * len(events))


def lapse(message: Message, state: OutboundState, *, now: datetime) -> None:
    """End a claim that ran out: its call may have sent the message."""
    attempt = Attempt.objects.filter(message=message).order_by("-n").first()
    if attempt is not None:
        Attempt.objects.filter(pk=attempt.pk, result__isnull=True).update(
            phase=AttemptPhase.WORKER_LOST,
            result=AttemptResult.UNCERTAIN,
            code=UncertainReason.CONNECTION_LOST,
            detail=f"the worker was lost; the call had got to: {attempt.phase}",
        )
    queued = message.deliveries.filter(status=DeliveryStatus.QUEUED)
    addresses = queued.values_list("address", flat=True)
    moved = move(
        message,
        [DeliveryChange(address, DeliveryStatus.UNCERTAIN) for address in addresses],
        from_={DeliveryStatus.QUEUED},
        now=now,
    )
    events = settle_status(
        message,
        charged=moved.charged,
        now=now,
        status=MessageStatus.UNCERTAIN,
        reason=str(UncertainReason.CONNECTION_LOST),
    )
    provider = str(attempt.provider) if attempt else "none"
    _turned_uncertain(message, state, moved.addresses, provider=provider, now=now)
    announce(message, events, now=now)


def turn_away(
    message: Message, state: OutboundState, way: Stop | Refuse | Wait, *, now: datetime
) -> None:
    """Do what becomes of a message that may not leave now; no claim is taken."""
    match way:
        case Wait():
            _wait(message, state, RetryClass.PAUSED, now=now)
        case Refuse():
            _end_unsent(message, way.status, reason=way.reason, now=now)
        case Stop():
            _stop(message, way.reason, now=now)
        case _:
            assert_never(way)


@transaction.atomic(durable=True)
def put_off(message_id: str, retry_class: RetryClass, *, code: str) -> None:
    """Back off a message that nobody has claimed; nothing was sent."""
    message = lock_message(message_id)
    if message is None or message.status != MessageStatus.QUEUED:
        return
    state = OutboundState.objects.get(message=message)
    if state.claim_token is None:
        log.info("message_waits", message_id=message_id, code=code)
        _wait(message, state, retry_class, now=database_now())


def _wait(
    message: Message, state: OutboundState, retry_class: RetryClass, *, now: datetime
) -> None:
    until = _retry_at(message, state, retry_class, now=now)
    _wait_until(message, state, until, now=now)


def wait_behind(
    message: Message, state: OutboundState, *, probe_at: datetime, now: datetime
) -> None:
    """Back off a message whose way out is closed until its next probe may go."""
    until = due_behind(
        probe_at,
        now=now,
        submitted_at=message.received_at,
        spread=random.random(),  # noqa: S311  jitter, not a secret
    )
    _wait_until(message, state, until, now=now)


def _wait_until(
    message: Message, state: OutboundState, until: datetime | None, *, now: datetime
) -> None:
    if until is None:
        _end_unsent(message, "failed", reason=QUOTA_EXHAUSTED, now=now)
    else:
        _back_off(message, state, until=until, now=now)


def _retry_at(
    message: Message, state: OutboundState, retry_class: RetryClass, *, now: datetime
) -> datetime | None:
    return next_attempt(
        retry_class,
        n=state.backoff_n + 1,
        now=now,
        submitted_at=message.received_at,
        spread=random.uniform(-1, 1),  # noqa: S311  jitter, not a secret
        scale=settings.PM_BACKOFF_SCALE,
    )


def _back_off(
    message: Message, state: OutboundState, *, until: datetime, now: datetime
) -> None:
    """Let the message wait: claim and thread are let go.

    Its hold is kept longer, for those who still wait: what was held for a refused
    recipient is given back.
    """
    unchanged = OutboundState.objects.filter(
        message=message, claim_token=state.claim_token
    )
    put_back = unchanged.update(
        claim_token=None,
        claimed_at=None,
        dispatch_at=until,
        retry_at=until,
        rung_at=None,
        as_composed=None,
        backoff_n=state.backoff_n + 1,
        backoff_first_at=state.backoff_first_at or now,
    )
    if not put_back:
        raise RuntimeError(f"{message.public_id} lost its queue row under its lock")
    release_thread(message)
    keep_held(message, until=until)


def give_up(addresses: tuple[str, ...]) -> tuple[DeliveryChange, ...]:
    """Return the end of recipients who will not be tried again."""
    return tuple(
        DeliveryChange(address, DeliveryStatus.FAILED, reason=QUOTA_EXHAUSTED)
        for address in addresses
    )


def _end_unsent(message: Message, status: str, *, reason: str, now: datetime) -> None:
    """Give the still queued recipients their end, and roll the message up."""
    queued = message.deliveries.filter(status=DeliveryStatus.QUEUED)
    addresses = queued.values_list("address", flat=True)
    moved = move(
        message,
        [
            DeliveryChange(address, DeliveryStatus(status), reason=reason)
            for address in addresses
        ],
        from_={DeliveryStatus.QUEUED},
        now=now,
    )
    events = settle_status(message, charged=moved.charged, now=now, reason=reason)
    announce(message, events, now=now)


def _stop(message: Message, reason: str, *, now: datetime) -> None:
    """Cancel what the system stopped; if part of it was sent, the rest has failed."""
    if set(statuses_of(message)) - UNSENT:
        _end_unsent(message, "failed", reason=reason, now=now)
        return
    cancel_unsent(message, reason=reason, now=now)


def cancel_unsent(
    message: Message,
    *,
    now: datetime,
    reason: str | None = None,
    actor_key_id: str | None = None,
) -> None:
    """Cancel a message that nobody has claimed and of which nothing was sent.

    Its thread, its hold and its place on the day are given back; its deliveries stay
    ``queued`` (REST contract, section 2.7). Without a key, the system did it.
    """
    events = settle_status(
        message, charged=0, now=now, status=MessageStatus.CANCELED, reason=reason
    )
    _give_the_day_back(message)
    announce(message, events, now=now)
    audit(
        "message.cancel",
        tenant_id=message.tenant_id,
        target_type="message",
        target_id=message.public_id,
        details=None if reason is None else {"reason": reason},
        actor_key_id=actor_key_id,
    )


def _give_the_day_back(message: Message) -> None:
    """A message that was canceled counts on no daily cap."""
    if message.cap_day is not None:
        quota.release_day(
            message.tenant_id,
            identity_id=message.identity_id,
            day=message.cap_day,
            is_system=message.identity.is_system,
        )


def _turned_uncertain(
    message: Message,
    state: OutboundState,
    recipients: tuple[str, ...],
    *,
    provider: str,
    now: datetime,
) -> None:
    """Count the doubt, and look for events that may settle it already."""
    metrics.count(metrics.UNCERTAIN, str(provider))
    look_again_at_orphans(
        message, recipients, claimed_at=state.claimed_at or now, now=now
    )
