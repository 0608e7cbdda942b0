"""Pure: what an answer means, and in how many seconds it is asked for again.

The rules are the API's own: stop at ``retryable: false``; wait as long as the server
says; otherwise twice as long each time. A send keeps its key over all of it.
"""

import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from pylota_client.failures import UNEXPECTED, Failure

FIRST_WAIT = 0.5
LONGEST_WAIT = 60.0
"""Seconds between two attempts when the server names none."""

Json = dict[str, Any]


def json_object(body: bytes) -> Json | None:
    """Return the JSON object that a body holds, or None."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def failure_of(
    status: int, headers: Mapping[str, str], body: bytes, *, now: datetime
) -> Failure:
    """Return what an answer outside 2xx says went wrong."""
    refusal = (json_object(body) or {}).get("error")
    if not isinstance(refusal, dict) or not isinstance(refusal.get("code"), str):
        return _foreign(status, headers, now=now)
    details = refusal.get("details")
    details = details if isinstance(details, dict) else {}
    said = refusal.get("retryable")
    return Failure(
        code=refusal["code"],
        message=str(refusal.get("message", "")),
        fix=str(refusal.get("fix", "")),
        status=status,
        retryable=said if isinstance(said, bool) else _is_passing(status),
        request_id=_text(refusal.get("request_id")) or headers.get("Request-Id"),
        details=details,
        retry_after=asked_wait(headers.get("Retry-After"), details, now=now),
    )


def _foreign(status: int, headers: Mapping[str, str], *, now: datetime) -> Failure:
    target = headers.get("Location", "") if 300 <= status < 400 else ""
    return Failure(
        code=UNEXPECTED,
        message=f"Another server than Pylota answered with {status}.",
        fix=f"Redirects are not followed; it names {target}: correct base_url."
        if target
        else "Check base_url, and what stands between here and there.",
        status=status,
        retryable=_is_passing(status),
        request_id=headers.get("Request-Id"),
        retry_after=asked_wait(headers.get("Retry-After"), {}, now=now),
    )


def next_wait(failure: Failure, *, spread: float) -> float | None:
    """Return the seconds until the next attempt; None to stop here.

    ``spread`` is a random number from 0 to 1 that keeps clients apart. A refusal with
    a 4xx is repeated only if it passes by itself within a call: it names a wait, or an
    earlier request with the same key is still running. A wait of nothing is not taken
    at its word, or one that says it again and again would be asked without a pause.
    """
    if not failure.retryable:
        return None
    asked = failure.retry_after
    if asked is not None and asked >= FIRST_WAIT:
        return asked + spread * min(1.0, asked / 10)
    is_over_soon = asked is not None or failure.code == "request_in_progress"
    if _is_refusal(failure.status) and not is_over_soon:
        return None
    doubled = FIRST_WAIT * 2.0 ** min(failure.attempts - 1, 10)
    return min(doubled, LONGEST_WAIT) * (1 + spread) / 2


def leaves_doubt(failure: Failure) -> bool:
    """Tell whether a send that got this answer may have been accepted.

    A gateway or a server that breaks may do so after the message was stored.
    """
    status = failure.status
    if failure.code == "request_in_progress":
        return True
    return status is not None and (200 <= status < 300 or status >= 500)


def asked_wait(
    header: str | None, details: Mapping[str, Any], *, now: datetime
) -> float | None:
    """Return for how many seconds the server asks, in whatever place; the longest."""
    asked = (
        _seconds(header),
        _until(_date(header), now=now),
        _seconds(details.get("retry_after")),
        _until(_instant(details.get("resets_at")), now=now),
    )
    return max((each for each in asked if each is not None), default=None)


def _is_passing(status: int) -> bool:
    return status == 429 or status >= 500


def _is_refusal(status: int | None) -> bool:
    return status is not None and not _is_passing(status)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _seconds(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return max(found, 0.0) if math.isfinite(found) else None


def _date(value: str | None) -> datetime | None:
    try:
        return None if value is None else parsedate_to_datetime(value)
    except (ValueError, OverflowError):  # the latter for a year of twenty digits
        return None


def _instant(value: object) -> datetime | None:
    try:
        return datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _until(instant: datetime | None, *, now: datetime) -> float | None:
    if instant is None:
        return None
    aware = instant if instant.tzinfo is not None else instant.replace(tzinfo=UTC)
    return max((aware - now).total_seconds(), 0.0)
