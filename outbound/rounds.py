"""Recipients whom the provider suppresses: set aside, and the rest called again.

The page, "Provider suppressions and resending". The refusal was definite, so the claim
goes on; each round is an attempt of its own, written before its call.
"""

from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Final

from django.conf import settings
from django.db import transaction

from core.clock import database_now, elapsed_clock
from core.database import execute
from delivery.changes import announce, keep_held, lock_message, move, settle_status
from delivery.models import OutboundState
from delivery.statuses import DeliveryStatus
from mailboxes.models import Message
from mailboxes.statuses import MessageStatus
from outbound.claims import (
    FIRST_PHASE,
    LEASE,
    Claim,
    announce_phase,
    close_attempt,
    queued_among,
    until_answered,
)
from outbound.outcomes import outcome_of, provider_suppressed
from outbound.settling import sync_suppressions
from outbound.transports.base import RecipientSuppressed

MOST: Final = 3
"""Rounds of one claim; a provider that refuses once more has refused the message."""


def next_round(claim: Claim, refusal: RecipientSuppressed) -> Claim | None:
    """Set aside whom the provider refused; return the claim to call the rest with.

    None when nobody is left, or the claim has ended: then no call may be made, and all
    is recorded. Tried on new connections until one answers.
    """
    started = elapsed_clock()
    rest: Claim | None = until_answered(
        claim, lambda: _next(claim, refusal, started=started)
    )
    return rest


@transaction.atomic(durable=True)
def _next(
    claim: Claim, refusal: RecipientSuppressed, *, started: float
) -> Claim | None:
    message = lock_message(claim.message_id)
    if message is None:
        return None
    now = database_now()
    outcome = outcome_of(refusal, queued=claim.outgoing.recipients)
    is_new = close_attempt(claim, outcome, now=now)  # if not, a COMMIT went unanswered
    if not OutboundState.objects.filter(claim_token=claim.token).exists():
        return None
    if is_new:
        _set_aside(message, refusal, now=now)
        if message.status != MessageStatus.QUEUED:
            return None
        _renew(message, claim, now=now)
        keep_held(message)
    return _continued(message, claim, started=started)


def _set_aside(
    message: Message, refusal: RecipientSuppressed, *, now: datetime
) -> None:
    changes = provider_suppressed(refusal.found)
    move(message, changes, from_={DeliveryStatus.QUEUED}, now=now)
    suppressed = sync_suppressions(message, changes, now=now)
    rolled = settle_status(message, charged=0, now=now)
    announce(message, [*rolled, *suppressed], now=now)


def _renew(message: Message, claim: Claim, *, now: datetime) -> None:
    """Let the claim begin anew, and open the attempt of the next call."""
    execute(
        "WITH renewed AS (UPDATE outbound_state SET claimed_at = %(now)s"
        " WHERE message_pk = %(message)s AND claim_token = %(token)s RETURNING 1),"
        " leased AS (UPDATE threads SET lock_until = %(lease)s"
        " WHERE pk = %(thread)s AND lock_owner = %(owner)s)"
        " INSERT INTO attempts (message_pk, n, tenant_id, provider, claim_token,"
        " claimed_at, phase, rfc_message_id, from_address, recipients)"
        " SELECT message_pk, n + 1, tenant_id, provider, claim_token, %(now)s,"
        " %(phase)s, rfc_message_id, from_address, %(recipients)s"
        " FROM attempts, renewed WHERE message_pk = %(message)s AND n = %(n)s",
        {
            "now": now,
            "message": message.key,
            "token": claim.token,
            "lease": now + LEASE,
            "thread": message.thread_id,
            "owner": message.public_id,
            "phase": str(FIRST_PHASE[claim.provider]),
            "recipients": list(queued_among(message)),
            "n": claim.n,
        },
    )


def _continued(message: Message, claim: Claim, *, started: float) -> Claim:
    ends = started + settings.PM_CLAIM_SECONDS
    fields = queued_among(message)
    outgoing = replace(
        claim.outgoing,
        recipients=tuple(fields),
        fields=fields,
        asks_first=False,
        seconds_left=lambda: ends - elapsed_clock(),
        announce=partial(announce_phase, claim.key, claim.n + 1, claim.token),
    )
    return replace(claim, n=claim.n + 1, outgoing=outgoing)
