"""The calls to transports, the queue, and the quota that is held for it."""

from datetime import datetime, timedelta
from typing import Any

from delivery.statuses import AttemptPhase, AttemptResult
from mailboxes.statuses import Provider
from pylota.demo_data.draw import Draw
from pylota.demo_data.mail import Letter, rfc_id
from pylota.demo_data.rows import Rows
from pylota.demo_data.shapes import ACCEPTED_AT_ONCE, DEFERRALS, DOUBTED, REFUSALS

FIRST_TRY_LATER = 0.03
"""The part of accepted mail that was taken at the second call only."""


def tell_calls(letter: Letter, draw: Draw, rows: Rows) -> None:
    """Add the attempts of a letter; one that is queued waits behind its back-off."""
    n = 1
    was_put_off = letter.fate in ("queued", "failed") or draw.chance(FIRST_TRY_LATER)
    if was_put_off and letter.was_called:
        rows.add("attempts", _retried(letter, draw))
        n = 2
    if letter.fate == "queued":
        _queue(letter, draw, rows)
    elif letter.was_called and letter.fate != "failed":
        rows.add("attempts", _last(letter, draw, n))


def _retried(letter: Letter, draw: Draw) -> dict[str, Any]:
    code, _, words = DEFERRALS
    ended = draw.after(letter.at, 0.9)
    return _attempt(
        letter,
        draw,
        n=1,
        claimed_at=letter.at,
        finished_at=ended,
        phase=AttemptPhase.ANSWERED,
        result=AttemptResult.RETRY,
        code=code,
        detail=words,
    )


def _last(letter: Letter, draw: Draw, n: int) -> dict[str, Any]:
    result, code, detail = AttemptResult.ACCEPTED, None, None
    if letter.fate in DOUBTED:
        is_lost = letter.phase == AttemptPhase.WORKER_LOST
        result = AttemptResult.UNCERTAIN
        code = "transport_connection_lost" if is_lost else "transport_timeout"
        detail = (
            "the worker was lost; the call had got to: awaiting_reply"
            if is_lost
            else "no answer within 30 s"
        )
    elif letter.fate not in ACCEPTED_AT_ONCE:
        result = AttemptResult.REJECTED
        code, _, detail = draw.one_of(REFUSALS)
        for one in letter.recipients:
            one.reason, one.response = letter.reason, detail
    elif letter.sender.provider != Provider.SMTP:
        letter.provider_id = f"{draw.random.getrandbits(128):032x}-000000"
    return _attempt(
        letter,
        draw,
        n=n,
        claimed_at=letter.left_at,
        finished_at=None
        if letter.phase == AttemptPhase.WORKER_LOST
        else letter.ended_at,
        phase=letter.phase,
        result=result,
        code=code,
        detail=detail,
    )


def _attempt(
    letter: Letter,
    draw: Draw,
    *,
    n: int,
    claimed_at: datetime,
    finished_at: datetime | None,
    phase: AttemptPhase,
    result: AttemptResult,
    code: str | None,
    detail: str | None,
) -> dict[str, Any]:
    is_taken = result == AttemptResult.ACCEPTED
    return {
        "message_pk": letter.key,
        "tenant_id": letter.sender.tenant_id,
        "n": n,
        "provider": str(letter.sender.provider),
        "claim_token": draw.uuid(),
        "claimed_at": claimed_at,
        "phase": str(phase),
        "provider_message_id": letter.provider_id if is_taken else None,
        "rfc_message_id": rfc_id(letter),
        "from_address": letter.sender.address,
        "recipients": tuple(one.address for one in letter.recipients),
        "finished_at": finished_at,
        "result": str(result),
        "code": code,
        "detail": detail,
    }


def _queue(letter: Letter, draw: Draw, rows: Rows) -> None:
    """Let it wait for its second call, with its units held a while longer."""
    due = draw.now + timedelta(minutes=20 + draw.random.random() * 40)
    rows.add(
        "outbound_state",
        {
            "message_pk": letter.key,
            "tenant_id": letter.sender.tenant_id,
            "dispatch_at": due,
            "retry_at": due,
            "backoff_n": 1,
            "backoff_first_at": letter.at,
        },
    )
    rows.add(
        "holds",
        {
            "id": draw.id("hld", letter.at),
            "tenant_id": letter.sender.tenant_id,
            "feature": "sends",
            "ref": letter.id,
            "units": len(letter.recipients),
            "expires_at": due + timedelta(minutes=10),
            "identity_id": letter.sender.identity_id,
            "day": letter.cap_day,
            "tenant_counted": True,
            "created_at": letter.at,
        },
    )
