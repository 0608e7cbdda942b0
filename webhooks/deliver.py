"""One event to one endpoint: a slot, a claim, one request, its record.

A ring says no more than "look at this row": it may be late, doubled or wrong, and the
claim decides.
"""

from datetime import datetime
from typing import Final

import structlog
from django.conf import settings
from django.db import Error, connection

from core.canonical import canonical_json
from core.clock import database_now
from core.elapsed import elapsed_clock
from core.ids import new_id
from core.points import reach
from core.sealing import SealBroken
from mailboxes.services import API_VERSION, render_instant
from webhooks import claims
from webhooks.claims import Claim
from webhooks.models import WebhookAttempt, WebhookEndpoint
from webhooks.outcomes import Outcome
from webhooks.secrets import open_secrets
from webhooks.signing import signed_headers
from webhooks.slots import NoMoreCalls, process_slots
from webhooks.statuses import AttemptError

GO_ON_SECONDS: Final = 30.0
"""How long one task goes on with rows that found no slot; then its thread is the pool's
again. A broker would redeliver a task that never ends."""

log = structlog.get_logger()


def deliver(dispatch_id: str) -> None:
    """Make one attempt if one is due. Safe to call twice, and at the same time.

    A row that finds no slot is left to whoever frees one; and so this one goes on, for
    a while, with rows that wait. With the database away a row is due again by itself.
    """
    try:
        if (endpoint_id := claims.endpoint_of(dispatch_id)) is None:
            return
        first = process_slots().enter(endpoint_id, dispatch_id)
    except NoMoreCalls:
        claims.give_back([dispatch_id])
    except Error as error:
        _failed(dispatch_id, error)
    else:
        if first is not None:
            _go_on(endpoint_id, first)


def stop_waiting() -> None:
    """Begin no further attempt in this process; what waits for one is due now."""
    claims.give_back(process_slots().close())


def _go_on(endpoint_id: str, dispatch_id: str) -> None:
    slots = process_slots()
    ends = elapsed_clock() + GO_ON_SECONDS
    turn: tuple[str, str] | None = (endpoint_id, dispatch_id)
    while turn is not None:
        began = elapsed_clock()
        try:
            _attempt(turn[1])
        finally:
            slots.leave(turn[0], seconds=elapsed_clock() - began)
        turn = slots.next() if elapsed_clock() < ends else None
    if elapsed_clock() >= ends and (left := slots.empty()):
        claims.give_back(left)  # they are rung anew: nobody may be left to serve them


def _attempt(dispatch_id: str) -> None:
    """Claim, call, record; whatever fails leaves a row that is due again."""
    try:
        if (claim := claims.claim(dispatch_id)) is None:
            return
        reach("webhook.claimed")
        outcome = _call(claim)  # between the transactions, never inside
        reach("webhook.answered")
        claims.record(claim, outcome)
    except Exception as error:
        _failed(dispatch_id, error)


def _failed(dispatch_id: str, error: Exception) -> None:
    log.warning("webhook_failed", job_id=dispatch_id, exc_info=error)
    if not connection.is_usable():
        connection.close()  # the next statement opens another


def _call(claim: Claim) -> Outcome:
    if claim.endpoint.disabled_reason is not None:
        return Outcome(AttemptError.ENDPOINT_DISABLED)
    if claim.payload is None:
        return Outcome(AttemptError.EVENT_UNAVAILABLE)
    try:
        body = canonical_json(claim.payload)  # the same octets each time
        return _post(claim.endpoint, claim.event_id, body, now=database_now())
    except Exception as error:  # it would fail again: the schedule bounds how often
        log.error("webhook_broke", event_id=claim.event_id, exc_info=error)
        return Outcome(AttemptError.CONNECT, detail=type(error).__name__)


def _post(
    endpoint: WebhookEndpoint, event_id: str, body: bytes, *, now: datetime
) -> Outcome:
    from webhooks import client  # and with it httpx, which takes its time to load

    try:
        keys = open_secrets(endpoint, now=now)
    except SealBroken:
        return Outcome(AttemptError.SECRET_UNAVAILABLE)
    headers = {
        **signed_headers(event_id, body, keys=keys, at=now),
        "Content-Type": "application/json",
        "User-Agent": settings.USER_AGENT,
    }
    return client.post(endpoint.url, body, headers=headers)


def try_now(endpoint: WebhookEndpoint, *, now: datetime) -> WebhookAttempt:
    """Send a ``webhook.test`` to an endpoint, once, and return how it ended.

    Takes up to 15 s, and is made outside of any transaction; a disabled endpoint is
    called as well. The attempt is stored; nothing of the endpoint changes.
    """
    event_id = new_id("evt")
    event = {
        "id": event_id,
        "type": "webhook.test",
        "api_version": API_VERSION,
        "occurred_at": render_instant(now),
        "tenant_id": endpoint.tenant_id,
        "identity_id": None,
        "sequence": None,
        "data": {"message": "hello"},
    }
    outcome = _post(endpoint, event_id, canonical_json(event), now=now)
    return claims.keep_test(endpoint, event_id, outcome, now=now)
