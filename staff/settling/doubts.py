"""Which sends are in doubt, and what is known of each: two statements a page.

The order is that in which they came into doubt, the oldest first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final, LiteralString

from core.database import fetch_all
from delivery.statuses import AttemptPhase
from staff.settling.asked import Asked, Hint, meant

REACHED: Final[Mapping[str, str]] = {
    AttemptPhase.CONNECTING: "connecting",
    AttemptPhase.SENDING: "sending",
    AttemptPhase.AWAITING_REPLY: "awaiting reply",
    AttemptPhase.ANSWERED: "answered",
    AttemptPhase.WORKER_LOST: "worker lost",
}


@dataclass(frozen=True, slots=True)
class Doubt:
    """One send in doubt, as a list shows it."""

    key: int
    message_id: str
    since: datetime
    tenant: str
    sender: str
    subject: str
    transport: str
    phase: str
    first: str
    in_doubt: int
    recipients: int
    heard: int
    orphans: int
    age_in_seconds: float

    @property
    def age(self) -> str:
        """Return for how long it has been in doubt, in its two largest units."""
        minutes = int(self.age_in_seconds // 60)
        for size, large, small in ((1440, "d", "h"), (60, "h", "min")):
            if minutes >= size:
                rest = minutes % size // (60 if large == "d" else 1)
                return f"{minutes // size} {large} {rest} {small}"
        return f"{minutes} min"

    @property
    def reached(self) -> str:
        """Return how far its last call got, in words."""
        return REACHED.get(self.phase, "no call")

    @property
    def hint(self) -> str:
        """Return what there is to go by, in words."""
        if self.orphans:
            verb = "matches" if self.orphans == 1 else "match"
            return f"{self.orphans} orphan{'s' * (self.orphans > 1)} nearly {verb}"
        if self.heard:
            return f"{self.heard} of {self.recipients} recipients heard of"
        return "none"


@dataclass(frozen=True, slots=True)
class Choice:
    """A value that a list can be narrowed to, and how many sends it leaves."""

    value: str
    number: int


_IN_DOUBT: Final[LiteralString] = """
  FROM (SELECT message_pk, min(updated_at) AS since, max(updated_at) AS latest,
               count(*) AS in_doubt, min(address) AS first
          FROM deliveries WHERE status = 'uncertain' GROUP BY message_pk) AS d
  JOIN messages m ON m.pk = d.message_pk
  JOIN tenants t ON t.id = m.tenant_id
  LEFT JOIN LATERAL (SELECT provider, phase FROM attempts
                      WHERE message_pk = m.pk ORDER BY n DESC LIMIT 1) AS a ON true
"""
DOMAIN: Final[LiteralString] = "split_part(m.from_address, '@', 2)"
_HEARD: Final[LiteralString] = """
(SELECT count(*) FROM deliveries WHERE message_pk = m.pk
    AND status IN ('delivered', 'deferred', 'bounced', 'complained'))
"""
_ORPHANS: Final[LiteralString] = """
(SELECT count(*) FROM deliveries r
   JOIN provider_events e
     ON e.state = 'orphaned' AND e.payload->>'recipient' = r.address
  WHERE r.message_pk = m.pk AND r.status = 'uncertain'
    AND (e.payload->>'sender' = m.from_address OR e.payload->>'subject' = m.subject)
    AND e.occurred_at BETWEEN m.received_at - interval '5 minutes'
                          AND d.latest + interval '1 day')
"""
_COLUMNS: Final[LiteralString] = f"""
m.pk, m.id, d.since, t.slug, coalesce(m.from_address, ''), coalesce(m.subject, ''),
coalesce(a.provider, ''), coalesce(a.phase, ''), d.first, d.in_doubt,
(SELECT count(*) FROM deliveries WHERE message_pk = m.pk), {_HEARD}, {_ORPHANS},
greatest(0, extract(epoch FROM %(now)s::timestamptz - d.since)::float8)
"""  # noqa: S608  constants only
_CLAUSES: Final[Mapping[str, LiteralString]] = {
    "tenant": "t.slug = %(tenant)s",
    "domain": f"{DOMAIN} = %(domain)s",
    "transport": "a.provider = %(transport)s",
    "phase": "a.phase = %(phase)s",
    "since": "d.since >= %(since)s",
    "until": "d.latest <= %(until)s",
    "message": "m.id = %(message)s",
    "address": "(m.from_address = %(address)s OR EXISTS (SELECT FROM deliveries"
    " WHERE message_pk = m.pk AND address = %(address)s))",
    "key_hash": "m.id IN (SELECT message_id FROM idempotency"
    " WHERE key_hash = %(key_hash)s)",
}
_HINTS: Final[Mapping[str, LiteralString]] = {
    Hint.ORPHAN: f"{_ORPHANS} > 0",
    Hint.OTHERS: f"{_HEARD} > 0",
    Hint.NONE: f"{_ORPHANS} = 0 AND {_HEARD} = 0",
}


def doubts(
    asked: Asked, *, limit: int, offset: int = 0, now: datetime
) -> tuple[list[Doubt], int]:
    """Return a page of the sends in doubt, and how many there are in all."""
    where, parameters = _where(asked)
    rows = fetch_all(
        f"SELECT m.pk, count(*) OVER () {_IN_DOUBT} WHERE {where}"
        " ORDER BY d.since, m.pk LIMIT %(limit)s OFFSET %(offset)s",
        {**parameters, "limit": limit, "offset": offset},
    )
    keys = [row[0] for row in rows]
    return _described(keys, now=now), rows[0][1] if rows else 0


def keys_of(asked: Asked, *, most: int) -> tuple[list[int], bool]:
    """Return the sends meant, the oldest doubts first, and whether there are more."""
    where, parameters = _where(asked)
    rows = fetch_all(
        f"SELECT m.pk {_IN_DOUBT} WHERE {where} ORDER BY d.since, m.pk LIMIT %(limit)s",
        {**parameters, "limit": most + 1},
    )
    return [row[0] for row in rows[:most]], len(rows) > most


def choices() -> dict[str, list[Choice]]:
    """Return the tenants, domains, transports and phases of what is in doubt."""
    rows = fetch_all(
        f"SELECT t.slug, {DOMAIN}, a.provider, a.phase, count(*) {_IN_DOUBT}"
        f" GROUP BY GROUPING SETS ((t.slug), ({DOMAIN}), (a.provider), (a.phase))"
        " ORDER BY 5 DESC, 1, 2, 3, 4"
    )
    found: dict[str, list[Choice]] = {}
    for *values, number in rows:
        for name, value in zip(_GROUPED, values, strict=True):
            if value is not None:
                found.setdefault(name, []).append(Choice(value, number))
    return found


_GROUPED: Final = ("tenant", "domain", "transport", "phase")


def _described(keys: Sequence[int], *, now: datetime) -> list[Doubt]:
    rows = fetch_all(
        f"SELECT {_COLUMNS} {_IN_DOUBT}"
        " WHERE d.message_pk = ANY (%(keys)s) ORDER BY d.since, m.pk",
        {"keys": list(keys), "now": now},
    )
    return [Doubt(*row) for row in rows]


def _where(asked: Asked) -> tuple[LiteralString, dict[str, Any]]:
    parameters = {
        name: value
        for name, value in asdict(asked).items()
        if value and name in _CLAUSES
    }
    parameters |= meant(asked.q)
    clauses = [_CLAUSES[name] for name in parameters]
    if asked.evidence in _HINTS:
        clauses.append(_HINTS[asked.evidence])
    return " AND ".join(clauses) or "true", parameters
