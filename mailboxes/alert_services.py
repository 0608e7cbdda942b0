"""Alerts: raised, renewed, and over; each begin and each end leaves an audit row.

What is told of once, a call's answer for one, is raised where it happens. What goes on
for a while is a condition that ``pylota.watch`` looks at every minute. Both stand in
one table, and at most one row of a name and a subject is open.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, LiteralString

import structlog
from django.db import transaction
from psycopg.types.json import Jsonb

from core.database import fetch_one
from core.errors import InvalidRequest
from core.ids import new_id
from core.metrics import ALERT_FIRED, count
from mailboxes.statuses import Severity

LONGEST_REASON: Final = 500
BATCH: Final = 100
"""Alerts of one name that one call of ``resolve_quiet`` closes."""

log = structlog.get_logger()

# An open row keeps its id, so only what is new finds its audit row's.
_RAISE: Final[LiteralString] = """
WITH told AS (
  SELECT * FROM unnest(%(ids)s::text[], %(audits)s::text[], %(subjects)s::text[],
                       %(details)s::jsonb[]) AS t (id, audit_id, subject, details)
), raised AS (
  INSERT INTO alerts (id, name, subject, severity, details, first_at, last_at)
  SELECT id, %(name)s, subject, %(severity)s, details, asked.at, asked.at
    FROM told, (SELECT coalesce(%(at)s::timestamptz, clock_timestamp()) AS at) AS asked
   ORDER BY subject
  ON CONFLICT (name, subject) WHERE resolved_at IS NULL DO UPDATE
     SET last_at = greatest(alerts.last_at, EXCLUDED.last_at),
         details = EXCLUDED.details
  RETURNING id
), audited AS (
  INSERT INTO audit_log (id, action, target_type, target_id, details, request_id)
  SELECT audit_id, 'alert.fire', 'alert', id, jsonb_build_object(
           'name', %(name)s::text, 'subject', subject, 'severity', %(severity)s::text),
         %(request)s
    FROM told JOIN raised USING (id)
  RETURNING 1
)
SELECT count(*) FROM audited
"""
_END: Final[LiteralString] = """
WITH due AS (
  SELECT id, row_number() OVER () AS n FROM (
    SELECT id FROM alerts WHERE {which} AND resolved_at IS NULL
     LIMIT %(most)s) AS open_ones
), ended AS (
  UPDATE alerts SET resolved_at = coalesce(%(at)s::timestamptz, clock_timestamp())
    FROM due WHERE alerts.id = due.id AND {which} AND resolved_at IS NULL
  RETURNING alerts.id, n, name, subject
), audited AS (
  INSERT INTO audit_log (id, action, target_type, target_id, details, actor_key_id,
                         actor_user_id, request_id)
  SELECT (%(audits)s::text[])[n], %(action)s, 'alert', id, jsonb_strip_nulls(
           jsonb_build_object('name', name, 'subject', subject,
                              'reason', %(reason)s::text)),
         %(key)s, %(user)s, %(request)s
    FROM ended
  RETURNING 1
)
SELECT count(*) FROM audited
"""
_OF_SUBJECT: Final[LiteralString] = _END.format(
    which="name = ANY (%(names)s) AND subject = %(subject)s"
    " AND (%(since)s::timestamptz IS NULL OR last_at < %(since)s)"
)
_QUIET: Final[LiteralString] = _END.format(
    which="name = %(name)s AND last_at < %(since)s AND subject <> ALL (%(keep)s)"
)
_ONE: Final[LiteralString] = _END.format(which="alerts.id = %(id)s")


def raise_alert(
    name: str,
    *,
    subject: str = "",
    severity: Severity = Severity.TICKET,
    details: Mapping[str, Any] | None = None,
) -> None:
    """Open an alert, or renew the open one of the same name and subject.

    One statement; joins the caller's transaction, if there is one. Only an alert that
    is new is audited, logged and counted.
    """
    raise_alerts(name, {subject: details or {}}, severity=severity)


def raise_alerts(
    name: str,
    told: Mapping[str, Mapping[str, Any]],
    *,
    severity: Severity,
    at: datetime | None = None,
) -> int:
    """Open or renew alerts of one name, by subject; return how many are new.

    ``at`` is when they were seen, by default now. Joins the caller's transaction.
    """
    row = fetch_one(
        _RAISE,
        {
            "name": name,
            "severity": str(severity),
            "at": at,
            "ids": [new_id("alr") for _ in told],
            "audits": [new_id("aud") for _ in told],
            "subjects": list(told),
            "details": [Jsonb(dict(details)) for details in told.values()],
            "request": _request_id(),
        },
    )
    fired = int(row[0]) if row is not None else 0
    for _ in range(fired):
        count(ALERT_FIRED, name, str(severity))
    if fired:
        transaction.on_commit(lambda: _say(name, severity, fired))
    return fired


def resolve_alerts(
    *names: str, subject: str = "", quiet_since: datetime | None = None
) -> None:
    """Close the open alerts of these names and this subject, if there are any.

    With an instant, only those that nothing has renewed since. One statement; joins the
    caller's transaction, if there is one.
    """
    which = {"names": list(names), "subject": subject, "since": quiet_since}
    _end(_OF_SUBJECT, which, most=len(names))


def resolve_quiet(
    name: str, *, quiet_since: datetime, keep: Sequence[str], at: datetime
) -> int:
    """Close alerts that nothing has renewed since an instant; return how many.

    Those of the subjects in ``keep`` stay; at most 100 are closed. Joins the caller's
    transaction.
    """
    which = {"name": name, "since": quiet_since, "keep": list(keep)}
    return _end(_QUIET, which, most=BATCH, at=at)


def close_alert(
    alert_id: str,
    *,
    reason: str,
    actor_key_id: str | None = None,
    actor_user_id: str | None = None,
    request_id: str | None = None,
) -> bool:
    """Close an alert for a person who has dealt with it; False if none such is open.

    Of two at once one closes it. A condition that is still true raises it anew within
    a minute or two, as another row. One statement; joins the caller's transaction, if
    there is one. Raises InvalidRequest for a reason that is blank or over 500
    characters long.
    """
    if not reason.strip() or len(reason) > LONGEST_REASON:
        raise InvalidRequest.at(
            "reason", f"must say why, in 1 to {LONGEST_REASON} characters"
        )
    closed = _end(
        _ONE,
        {"id": alert_id},
        most=1,
        action="alert.close",
        reason=reason.strip(),
        key=actor_key_id,
        user=actor_user_id,
        request=request_id,
    )
    return closed == 1


def _end(
    statement: LiteralString,
    which: Mapping[str, Any],
    *,
    most: int,
    at: datetime | None = None,
    action: str = "alert.resolve",
    reason: str | None = None,
    key: str | None = None,
    user: str | None = None,
    request: str | None = None,
) -> int:
    """Close what the statement finds, with an audit row each; return how many."""
    parameters = {
        "most": most,
        "audits": [new_id("aud") for _ in range(most)],
        "at": at,
        "action": action,
        "reason": reason,
        "key": key,
        "user": user,
        "request": request or _request_id(),
    }
    row = fetch_one(statement, {**parameters, **which})
    return int(row[0]) if row is not None else 0


def _request_id() -> str | None:
    """Return the request that this thread's log lines carry, if any."""
    found: str | None = structlog.contextvars.get_contextvars().get("request_id")
    return found


def _say(name: str, severity: Severity, fired: int) -> None:
    log.warning("alert_fired", detail=name, status=str(severity), count=fired)
