"""The breakers' rows: asked within the claim, written by the record.

A row exists only while something is wrong. A way that works has none, so the normal
path locks nothing. Everything here joins the caller's transaction, which holds the
message: the breaker's lock comes after it, and before the quota's.
"""

from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.conf import settings
from django.db.models import QuerySet

from core.database import fetch_one
from mailboxes.services import raise_alert, resolve_alerts
from mailboxes.statuses import Severity
from outbound.breaker import Evidence, Standing, Way, opened
from outbound.models import Breaker

ALERT: Final = "transport_breaker_open"


def scope_of(way: Way | None) -> str:
    """Return the scope that a claim asks of; that of no row, if there is no breaker."""
    return way.scope if way is not None and settings.PM_BREAKER_SECONDS else ""


def take_probe(way: Way, *, token: UUID, now: datetime) -> datetime | None:
    """Take the right to probe a closed way, or return the instant to wait for.

    None: this claim may call. One claim gets the right, by compare-and-set, and it
    lapses with the claim: by then the next probe may go.
    """
    still_open = _rows(way).filter(openings__gt=0)
    lapses = now + timedelta(seconds=settings.PM_CLAIM_SECONDS)
    if still_open.filter(probe_at__lte=now).update(probe_token=token, probe_at=lapses):
        return None
    return still_open.values_list("probe_at", flat=True).first()


def note_end(
    way: Way | None, evidence: Evidence, *, token: UUID, now: datetime
) -> None:
    """Let the breaker learn how a call ended that still held its claim.

    One that had lost its claim says nothing: a lost worker does not count.
    """
    if way is None or not settings.PM_BREAKER_SECONDS:
        return
    match evidence:
        case Evidence.WORKS:
            _forget(way, token)
        case Evidence.UNKNOWN:
            _count(way, token, now=now)
        case Evidence.NOTHING:  # the next message may probe: this one made no call
            _rows(way).filter(probe_token=token).update(probe_token=None, probe_at=now)


def _rows(way: Way) -> QuerySet[Breaker]:
    return Breaker.objects.filter(provider=way.provider, scope=way.scope)


def _forget(way: Way, token: UUID) -> None:
    """End the count; an open breaker is closed by its probe alone."""
    row = fetch_one(
        "DELETE FROM transport_breakers"
        " WHERE provider = %(provider)s AND scope = %(scope)s"
        " AND (openings = 0 OR probe_token = %(token)s) RETURNING openings",
        {"provider": str(way.provider), "scope": way.scope, "token": token},
    )
    if row is not None and row[0]:
        resolve_alerts(ALERT, subject=way.name)


def _count(way: Way, token: UUID, *, now: datetime) -> None:
    row = fetch_one(
        "INSERT INTO transport_breakers AS b (provider, scope, unknowns, openings)"
        " VALUES (%(provider)s, %(scope)s, 1, 0) ON CONFLICT (provider, scope)"
        " DO UPDATE SET unknowns = b.unknowns + 1 RETURNING unknowns, openings,"
        " probe_at, probe_token IS NOT DISTINCT FROM %(token)s",
        {"provider": str(way.provider), "scope": way.scope, "token": token},
    )
    assert row is not None  # noqa: S101  it stands by now
    after = opened(
        Standing(*row[:3]),
        is_probe=row[3],
        now=now,
        first_wait=settings.PM_BREAKER_SECONDS,
        scale=settings.PM_BACKOFF_SCALE,
    )
    if after is not None:
        _open(way, after)


def _open(way: Way, after: Standing) -> None:
    _rows(way).update(
        openings=after.openings, probe_at=after.probe_at, probe_token=None
    )
    raise_alert(
        ALERT,
        subject=way.name,
        severity=Severity.PAGE,
        details={"openings": after.openings, "unknowns": after.unknowns},
    )
