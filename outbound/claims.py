"""The two transactions of an attempt: taking a message for one call, and its record.

Only the holder of a claim may call the transport. A claim that runs out becomes
``uncertain``, never ``queued`` (architecture, section 4).
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Final, TypeVar
from uuid import UUID, uuid4

import structlog
from django.conf import settings
from django.db import connection, transaction

from core import metrics, objects
from core.clock import database_now, elapsed_clock
from core.database import AWAY, execute, fetch_one
from core.points import reach
from delivery.changes import keep_held, lock_message, trimmed
from delivery.journal import journal_address
from delivery.models import OutboundState
from delivery.statuses import AttemptResult, DeliveryStatus
from mailboxes.models import Message
from mailboxes.statuses import MessageStatus, Provider
from outbound.alerts import end_wait, report_stuck, told_by
from outbound.breaker import evidence_of, way_of
from outbound.breaker_services import note_end, scope_of, take_probe
from outbound.compose import rfc_message_id_of
from outbound.departure import Depart, Stop, departure
from outbound.fallback import leave_from
from outbound.late import settle_late
from outbound.outcomes import Outcome, outcome_of
from outbound.senders import Origin, sender_of
from outbound.settling import (
    lapse,
    put_off,
    settle,
    turn_away,
    wait_behind,
)
from outbound.transports.base import (
    ClaimLost,
    OutgoingMessage,
    Phase,
    RetryClass,
    TransportResult,
)
from outbound.transports.loopback import TEST_PROVIDERS, carrier_of
from outbound.withheld import withhold

log = structlog.get_logger()

T = TypeVar("T")

LEASE = timedelta(seconds=60)
"""How long a thread stays locked from the start of a call."""

DEADLINE_SHARE = 0.8
"""The whole exchange ends within this share of the claim: 4 of its 5 minutes."""

ANSWERED = frozenset({AttemptResult.ACCEPTED, AttemptResult.REJECTED})
"""Ends of a call that are an answer; of any other, the phase says how far it got."""

FIRST_PHASE: Final = dict.fromkeys(
    (Provider.CLOUDFLARE, Provider.SES), Phase.AWAITING_REPLY
)
"""How far an HTTP call may have got, written with the claim: it has no steps."""

NAMES_ITSELF: Final = frozenset({Provider.CLOUDFLARE, Provider.SES})
"""Providers that write a Message-ID of their own, and do not say which."""

MOST_PAUSE = 5.0


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to make one call for one message, and what to call with."""

    message_id: str
    key: int
    n: int
    token: UUID
    provider: Provider
    domain: str
    domain_id: str
    outgoing: OutgoingMessage


def claim(message_id: str) -> Claim | None:
    """Take a message for one transport call, or return None if none is due.

    Safe to call twice and at the same time: one caller at most gets the claim. The sent
    copy is read first; with the object store away nothing is claimed, and the message
    waits. A COMMIT without an answer is read back on a new connection.
    """
    found = Message.objects.filter(public_id=message_id, status=MessageStatus.QUEUED)
    if (raw_key := found.values_list("raw_key", flat=True).first()) is None:
        return None
    try:
        mime = objects.get(raw_key)
    except objects.ObjectStoreAway:
        put_off(message_id, RetryClass.PAUSED, code="object_store_away")
        return None
    except objects.ObjectMissing:  # it may be restored; if not, 24 hours end the wait
        report_stuck(message_id, "sent_copy_missing")
        put_off(message_id, RetryClass.PAUSED, code="sent_copy_missing")
        return None
    token = uuid4()
    committing = False
    try:
        with transaction.atomic(durable=True):
            taken = _take(message_id, mime, token=token)
            committing = True
    except AWAY:
        connection.close()
        if not committing or not _stands(message_id, token):
            raise
    return taken


def _take(message_id: str, mime: bytes, *, token: UUID) -> Claim | None:
    started = elapsed_clock()
    message = lock_message(message_id)
    if message is None or message.status != MessageStatus.QUEUED:
        return None
    now = database_now()
    state = OutboundState.objects.get(message=message)
    if state.claimed_at is not None:
        if now - state.claimed_at >= timedelta(seconds=settings.PM_CLAIM_SECONDS):
            lapse(message, state, now=now)
        return None
    if state.retry_at is not None and state.retry_at > now:
        return None  # a late copy of an old ring is no retry
    sender = sender_of(message, now=now)
    if sender is None:
        turn_away(message, state, Stop("identity_deleted"), now=now)
        return None
    way = departure(sender.facts)
    if not isinstance(way, Depart):
        turn_away(message, state, way, now=now)
        return None
    has_withheld = withhold(message, now=now)
    if message.status != MessageStatus.QUEUED:
        return None
    origin = sender.origin(way)
    take = partial(
        _write,
        message,
        state,
        mime,
        origin,
        way.provider,
        token,
        now=now,
        started=started,
    )
    if (taken := take()) is None:  # the way is closed: this is its one probe, or waits
        closed = way_of(way.provider, domain_id=origin.domain_id)
        probe_at = take_probe(closed, token=token, now=now) if closed else None
        if probe_at is not None:
            wait_behind(message, state, probe_at=probe_at, now=now)
            return None
        taken = take(asks_first=True)
    if has_withheld:
        keep_held(message)  # the quota row is locked last
    return taken


def _write(
    message: Message,
    state: OutboundState,
    mime: bytes,
    origin: Origin,
    provider: Provider,
    token: UUID,
    *,
    now: datetime,
    started: float,
    asks_first: bool = False,
) -> Claim | None:
    fields = queued_among(message)
    recipients = tuple(fields)
    if provider in TEST_PROVIDERS:
        provider = carrier_of(recipients)
    composed_id = rfc_message_id_of(message.public_id, message.from_address or "")
    row = fetch_one(
        "WITH taken AS (UPDATE outbound_state SET claim_token = %(token)s,"
        " claimed_at = %(now)s, dispatch_at = NULL, rung_at = NULL, retry_at = NULL"
        " WHERE message_pk = %(message)s AND claim_token IS NULL"
        " AND NOT EXISTS (SELECT 1 FROM transport_breakers"  # unless we are its probe
        " WHERE provider = %(provider)s AND scope = %(scope)s AND openings > 0"
        " AND probe_token IS DISTINCT FROM %(token)s) RETURNING 1),"
        " leased AS (UPDATE threads SET lock_until = %(lease)s"
        " WHERE pk = %(thread)s AND lock_owner = %(owner)s),"
        " renamed AS (UPDATE messages SET rfc_message_id = NULL"
        " WHERE pk = %(message)s AND provider IS NULL AND %(rfc_id)s::text IS NULL"
        " AND EXISTS (SELECT 1 FROM taken))"
        " INSERT INTO attempts (message_pk, n, tenant_id, provider, claim_token,"
        " claimed_at, phase, rfc_message_id, from_address, recipients)"
        " SELECT %(message)s, (SELECT coalesce(max(n), 0) + 1 FROM attempts"
        " WHERE message_pk = %(message)s), %(tenant)s, %(provider)s, %(token)s,"
        " %(now)s, %(phase)s, %(rfc_id)s, %(from)s, %(recipients)s FROM taken"
        " RETURNING n",
        {
            "token": token,
            "now": now,
            "message": message.key,
            "lease": now + LEASE,
            "thread": message.thread_id,
            "owner": message.public_id,
            "tenant": message.tenant_id,
            "provider": str(provider),
            "scope": scope_of(way_of(provider, domain_id=origin.domain_id)),
            "phase": str(FIRST_PHASE.get(provider, Phase.CONNECTING)),
            "rfc_id": None if provider in NAMES_ITSELF else composed_id,
            "from": origin.address,
            "recipients": list(recipients),
        },
    )
    if row is None:
        return None
    if state.backoff_n:
        end_wait(message, domain_id=origin.domain_id)
    ends = started + settings.PM_CLAIM_SECONDS
    outgoing = OutgoingMessage(
        message_id=message.public_id,
        rfc_message_id=composed_id,
        domain=origin.domain_name,
        from_address=origin.address,
        recipients=recipients,
        mime=leave_from(message, state, origin, mime),
        relay=origin.relay,
        fields=fields,
        journal_bcc=journal_address(message)
        if provider == Provider.CLOUDFLARE and settings.PM_CF_JOURNAL
        else None,
        asks_first=asks_first,
        deadline_seconds=settings.PM_CLAIM_SECONDS * DEADLINE_SHARE,
        seconds_left=lambda: ends - elapsed_clock(),
        announce=partial(announce_phase, message.key, row[0], token),
    )
    return Claim(
        message_id=message.public_id,
        key=message.key,
        n=row[0],
        token=token,
        provider=provider,
        domain=origin.domain_name,
        domain_id=origin.domain_id,
        outgoing=outgoing,
    )


def queued_among(message: Message) -> dict[str, str]:
    """Return who is still to be sent to, in order, and which header names each."""
    queued = message.deliveries.filter(status=DeliveryStatus.QUEUED)
    return dict(sorted(queued.values_list("address", "field")))


@transaction.atomic(durable=True)
def _stands(message_id: str, token: UUID) -> bool:
    """Tell, on a new connection, whether a claim's COMMIT took effect.

    Its locks are waited for first: the server may still be committing.
    """
    lock_message(message_id)
    return OutboundState.objects.filter(claim_token=token).exists()


def announce_phase(key: int, n: int, token: UUID, phase: Phase) -> None:
    """Commit how far a call has got, before its first octet leaves.

    Raises ClaimLost when the claim has ended, or nobody can tell.
    """
    try:
        still_ours = execute(
            "UPDATE attempts a SET phase = %(phase)s FROM outbound_state s"
            " WHERE a.message_pk = %(message)s AND a.n = %(n)s"
            " AND s.message_pk = a.message_pk AND s.claim_token = %(token)s",
            {"phase": str(phase), "message": key, "n": n, "token": token},
        )
    except AWAY as error:
        connection.close()
        raise ClaimLost("the database does not answer") from error
    if not still_ours:
        raise ClaimLost("the claim has ended")


def record(claim: Claim, result: TransportResult) -> None:
    """Write down how a call ended; tried on new connections until one answers.

    A repeated record changes nothing. One that comes after its claim has ended settles
    the doubt, or is kept as evidence. What it says of domain and provider follows in
    transactions of its own, tried in the same way.
    """
    until_answered(claim, lambda: _record(claim, result))
    for tell in told_by(result, provider=claim.provider, domain_id=claim.domain_id):
        until_answered(claim, tell)


def until_answered(claim: Claim, write: Callable[[], T]) -> T:
    """Run a transaction on new connections until one answers; it may run twice."""
    pause = 0.1
    while True:
        try:
            return write()
        except AWAY as error:
            log.warning(
                "record_delayed",
                message_id=claim.message_id,
                attempt=claim.n,
                detail=type(error).__name__.lower(),
            )
            connection.close()
            time.sleep(pause)
            pause = min(pause * 2, MOST_PAUSE)


@transaction.atomic(durable=True)
def _record(claim: Claim, result: TransportResult) -> None:
    message = lock_message(claim.message_id)
    if message is None:
        return
    now = database_now()
    outcome = outcome_of(result, queued=claim.outgoing.recipients)
    if not close_attempt(claim, outcome, now=now):
        return
    state = OutboundState.objects.filter(message=message, claim_token=claim.token)
    if (held := state.first()) is None:
        metrics.count(metrics.STALE_CLAIM_OUTCOME)
        settle_late(
            message,
            outcome,
            provider=claim.provider,
            recipients=claim.outgoing.recipients,
            now=now,
        )
    else:
        way = way_of(claim.provider, domain_id=claim.domain_id)
        note_end(way, evidence_of(outcome), token=claim.token, now=now)
        settle(message, held, outcome, provider=claim.provider, now=now)
    reach("record.written")


def close_attempt(claim: Claim, outcome: Outcome, *, now: datetime) -> bool:
    """Write the outcome on the attempt's row; False if that has been done before."""
    return bool(
        execute(
            "UPDATE attempts SET finished_at = %(now)s,"
            " phase = CASE WHEN %(answered)s THEN 'answered' ELSE phase END,"
            " result = %(result)s, code = %(code)s, detail = %(detail)s,"
            " provider_message_id = coalesce(%(provider_id)s, provider_message_id),"
            " rfc_message_id = coalesce(%(rfc_id)s, rfc_message_id)"
            " WHERE message_pk = %(message)s AND n = %(n)s AND finished_at IS NULL",
            {
                "now": now,
                "answered": outcome.result in ANSWERED,
                "result": str(outcome.result),
                "code": outcome.code,
                "detail": trimmed(outcome.detail),
                "provider_id": outcome.provider_message_id,
                "rfc_id": outcome.rfc_message_id,
                "message": claim.key,
                "n": claim.n,
            },
        )
    )
