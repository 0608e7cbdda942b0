"""The two transactions of an attempt: taking a due row, and what became of it.

A claim sets ``due_at`` to an instant by which its attempt must have ended, and that
instant is its token: a worker that dies leaves a row that is due again by itself. So an
event comes at least once, and its id tells a receiver that it came before.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from django.conf import settings
from django.db import transaction

from core import clock, metrics
from core.clock import database_now
from core.database import execute, fetch_one
from core.ids import new_id
from mailboxes.models import Event
from webhooks import health, judging
from webhooks.models import WebhookAttempt, WebhookEndpoint
from webhooks.outcomes import Outcome
from webhooks.schedule import next_attempt
from webhooks.statuses import AttemptError, AttemptStatus, DispatchState

CLAIM_FOR: Final = timedelta(seconds=60)
"""How long a claim holds its row; an attempt and its record take a third of that."""

FINAL: Final = frozenset(
    {AttemptError.EVENT_UNAVAILABLE, AttemptError.ENDPOINT_DISABLED}
)
"""Failures after which nothing is tried again, whatever the schedule has left."""

STATES: Final = {
    AttemptStatus.SUCCEEDED: DispatchState.SUCCEEDED,
    AttemptStatus.FAILED: DispatchState.PENDING,
    AttemptStatus.DEAD: DispatchState.DEAD,
}


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to make one attempt, and what to make it with.

    ``payload`` is None when the event is gone. ``step`` counts the failures before it,
    ``n`` is the attempt's number.
    """

    dispatch_id: int
    endpoint: WebhookEndpoint
    event_id: str
    event_type: str
    step: int
    n: int
    token: datetime
    occurred_at: datetime | None = None
    payload: Mapping[str, Any] | None = field(default=None, repr=False)


@transaction.atomic(durable=True)
def claim(dispatch_id: str) -> Claim | None:
    """Take a rung row for one attempt, or return None if it is not rung.

    Safe to call twice and at the same time: one caller at most gets the claim, and a
    late copy of an old ring gets none.
    """
    row = fetch_one(
        "UPDATE webhook_dispatches SET rung_at = NULL, attempts = attempts + 1,"
        " due_at = clock_timestamp() + %(offset)s + %(claim)s"
        " WHERE id = %(id)s AND state = 'pending' AND rung_at IS NOT NULL"
        " RETURNING endpoint_id, event_id, event_type, step, attempts, due_at",
        {"offset": clock.offset, "claim": CLAIM_FOR, "id": int(dispatch_id)},
    )
    if row is None:
        return None
    endpoint_id, event_id, event_type, step, n, token = row
    event = Event.objects.filter(id=event_id).first()
    return Claim(
        dispatch_id=int(dispatch_id),
        endpoint=WebhookEndpoint.objects.get(id=endpoint_id),
        event_id=event_id,
        event_type=event_type,
        step=step,
        n=n,
        token=token,
        occurred_at=None if event is None else event.occurred_at,
        payload=None if event is None else event.payload,
    )


@transaction.atomic(durable=True)
def record(claim: Claim, outcome: Outcome) -> WebhookAttempt | None:
    """Write how a claim's attempt ended, and when the next is due, if one is.

    Locks the endpoint, then the row. A claim that ran out meanwhile leaves its attempt
    as evidence and changes nothing else: another decides. None: the endpoint is gone.
    """
    if (locked := health.lock(claim.endpoint.id)) is None:
        return None
    before, tenant_id = locked
    now = database_now()
    after = judging.after(before, outcome, now=now)
    is_over = outcome.error in FINAL or after.disabled_reason != before.disabled_reason
    due_at = None if is_over or outcome.is_success else _next(claim, now=now)
    status = _status(outcome, due_at)
    if not _move(claim, STATES[status], due_at=due_at):
        late = AttemptStatus.SUCCEEDED if outcome.is_success else AttemptStatus.FAILED
        return _keep(claim, outcome, late, next_at=None, now=now)
    attempt = _keep(claim, outcome, status, next_at=due_at, now=now)
    if after != before or outcome.is_success:
        is_success = outcome.is_success
        health.store(claim.endpoint.id, after, is_success=is_success, now=now)
    health.tell(
        claim.endpoint.id,
        outcome,
        before=before,
        after=after,
        tenant_id=tenant_id,
        now=now,
    )
    _count(claim, status, now=now)
    return attempt


def give_back(dispatch_ids: Sequence[str], *, delay: float = 0.0) -> None:
    """Make rung rows that nobody claimed due again after ``delay`` seconds."""
    execute(
        "UPDATE webhook_dispatches SET rung_at = NULL,"
        " due_at = clock_timestamp() + %(offset)s + %(delay)s"
        " WHERE id = ANY(%(ids)s) AND state = 'pending' AND rung_at IS NOT NULL",
        {
            "ids": [int(one) for one in dispatch_ids],
            "offset": clock.offset,
            "delay": timedelta(seconds=delay),
        },
    )


def endpoint_of(dispatch_id: str) -> str | None:
    """Return whom a rung row goes to; None when it is not rung any more."""
    row = fetch_one(
        "SELECT endpoint_id FROM webhook_dispatches"
        " WHERE id = %(id)s AND state = 'pending' AND rung_at IS NOT NULL",
        {"id": int(dispatch_id)},
    )
    return None if row is None else str(row[0])


def keep_test(
    endpoint: WebhookEndpoint, event_id: str, outcome: Outcome, *, now: datetime
) -> WebhookAttempt:
    """Write the attempt of a ``webhook.test``; nothing of the endpoint changes."""
    status = AttemptStatus.SUCCEEDED if outcome.is_success else AttemptStatus.DEAD
    metrics.count(metrics.WEBHOOK_ATTEMPTS, str(status))
    return WebhookAttempt.objects.create(
        id=new_id("dlv"),
        endpoint=endpoint,
        event_id=event_id,
        event_type="webhook.test",
        attempt=1,
        status=status,
        http_status=outcome.http_status,
        error=outcome.error,
        detail=outcome.detail,
        duration_ms=outcome.duration_ms,
        created_at=now,
    )


def _next(claim: Claim, *, now: datetime) -> datetime | None:
    return next_attempt(
        claim.step + 1,
        now=now,
        spread=random.uniform(-1, 1),  # noqa: S311  jitter, not a secret
        scale=settings.PM_BACKOFF_SCALE,
    )


def _status(outcome: Outcome, due_at: datetime | None) -> AttemptStatus:
    if outcome.is_success:
        return AttemptStatus.SUCCEEDED
    return AttemptStatus.DEAD if due_at is None else AttemptStatus.FAILED


def _move(claim: Claim, state: DispatchState, *, due_at: datetime | None) -> bool:
    """Move a row on, if it is still this claim's; tell whether it was."""
    failed = state != DispatchState.SUCCEEDED
    return bool(
        execute(
            "UPDATE webhook_dispatches SET state = %(state)s, due_at = %(due)s,"
            " step = step + %(failed)s"
            " WHERE id = %(id)s AND state = 'pending' AND due_at = %(token)s"
            " AND rung_at IS NULL",
            {
                "id": claim.dispatch_id,
                "state": str(state),
                "due": due_at,
                "failed": int(failed),
                "token": claim.token,
            },
        )
    )


def _keep(
    claim: Claim,
    outcome: Outcome,
    status: AttemptStatus,
    *,
    next_at: datetime | None,
    now: datetime,
) -> WebhookAttempt:
    metrics.count(metrics.WEBHOOK_ATTEMPTS, str(status))
    return WebhookAttempt.objects.create(
        id=new_id("dlv"),
        endpoint=claim.endpoint,
        event_id=claim.event_id,
        event_type=claim.event_type,
        attempt=claim.n,
        status=status,
        http_status=outcome.http_status,
        error=outcome.error,
        detail=outcome.detail,
        duration_ms=outcome.duration_ms,
        next_attempt_at=next_at,
        created_at=now,
    )


def _count(claim: Claim, status: AttemptStatus, *, now: datetime) -> None:
    kind = claim.event_type.partition(".")[0]
    if status is AttemptStatus.DEAD:
        metrics.count(metrics.WEBHOOK_DEAD, kind)
    if status is AttemptStatus.SUCCEEDED and claim.occurred_at is not None:
        took = (now - claim.occurred_at).total_seconds() * 1000
        first = str(claim.n == 1).lower()
        metrics.observe(metrics.WEBHOOK_DELIVERY_LATENCY, took, kind, first)
