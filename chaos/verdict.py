"""What came out, held against what clients were told: counted from outside, then read.

The invariants are those of every fault test (``tests/support/invariants.py``); here
they are asked of a whole run, with what only a run can show.
"""

import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import psycopg

from chaos.broker import Length
from chaos.clients import Log
from chaos.profiles import PARALLEL, REDISPATCH, TOO_LITTLE, WORKERS, Profile
from tests.support.invariants import Copies, books, broken

WORKER_LOST: Final = "worker_lost"
BACK_AT_WORK: Final = 20.0
"""How soon after a blow the next mail must have left, in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What the accountants of a run have written down; times in monotonic seconds."""

    profile: Profile
    log: Log
    copies: Copies
    taken_at: Sequence[float]
    blows_at: Sequence[float]
    feed: Sequence[str]
    hooked: Sequence[str]
    done: Mapping[str, int]
    killed: int
    wire_kills: int
    smtp_faults: Mapping[str, int]
    smtp_doubts: Collection[str]
    http: Mapping[str, int]
    said: Mapping[tuple[str, str], str]
    told: Mapping[int, int]
    forged: Mapping[int, int]
    copied: int
    lengths: Sequence[Length]
    has_rested: bool

    @property
    def kills(self) -> int:
        """Return how many processes ended by SIGKILL, the web as one."""
        return self.killed + self.done.get("web", 0)

    @property
    def may_be_lost(self) -> int:
        """Return how many sends may have lost their workers.

        A worker that dies or stands still had so many calls in its hands at most; the
        database's end leaves each worker with as many that it may not get recorded.
        """
        lost = self.killed + self.done.get("freeze", 0)
        lost += WORKERS * self.done.get("database", 0)
        return lost * PARALLEL


class Doubt(NamedTuple):
    """The last call of a send in doubt, as its attempt tells it."""

    phase: str
    provider: str
    code: str | None = None


@dataclass
class Verdict:
    """Every breach in words, and the figures of the last line."""

    breaches: list[str] = field(default_factory=list)
    figures: dict[str, int] = field(default_factory=dict)

    @property
    def line(self) -> str:
        """Return the run in one line."""
        return " ".join(f"{name}={value}" for name, value in self.figures.items())


def verdict(outcome: Outcome, *, url: str, tenant_id: str) -> Verdict:
    """Read the books at the very end, and say what does not hold."""
    ids = outcome.log.ids()
    accepted = {key: min(found) for key, found in ids.items() if found}
    with books(url, [tenant_id]) as connection:
        of_rows = broken(connection, accepted, outcome.copies)
        states = _states(connection)
        doubts = _doubts(connection, accepted)
        ends = _ends(connection, accepted)
        flights = _flights(connection)
        events = _events(connection)
    duplicates = sum(count > 1 for count in outcome.copies.values())
    lost = sum(_is_loss(breach) for breach in of_rows)
    drift = sum(breach.startswith("I4") for breach in of_rows)
    breaches = [
        *of_rows,
        *of_answers(outcome.log),
        *of_events(outcome, events),
        *of_doubts(outcome, doubts),
        *of_words(outcome, ends),
        *of_queue(outcome, flights),
        *of_effort(outcome),
    ]
    return Verdict(
        breaches,
        {
            "keys": len(ids),
            "mails": sum(outcome.copies.values()),
            "duplicates": duplicates,
            "lost": lost,
            "uncertain": states["uncertain"],
            "kills": outcome.kills,
            "drift": drift,
        },
    )


def _is_loss(breach: str) -> bool:
    return breach.startswith("I2") or breach.endswith("with 0 copies")


def _states(connection: psycopg.Connection[Any]) -> Counter[str]:
    rows = connection.execute(
        "SELECT status, count(*) FROM messages WHERE direction = 'outbound' GROUP BY 1"
    )
    return Counter(dict(rows.fetchall()))


def _doubts(
    connection: psycopg.Connection[Any], accepted: Mapping[str, str]
) -> dict[str, Doubt]:
    """Return the keys in doubt, each with what its last call says.

    A message that no key was answered with goes by its own id, here and below.
    """
    keys = {message: key for key, message in accepted.items()}
    rows = connection.execute(
        "SELECT DISTINCT ON (m.id) m.id, a.phase, a.provider, a.code FROM messages m"
        " JOIN attempts a ON a.message_pk = m.pk"
        " WHERE m.status = 'uncertain' ORDER BY m.id, a.n DESC"
    )
    return {keys.get(message, message): Doubt(*said) for message, *said in rows}


def _ends(
    connection: psycopg.Connection[Any], accepted: Mapping[str, str]
) -> dict[tuple[str, str], str]:
    """Return the status of each recipient by key and address."""
    keys = {message: key for key, message in accepted.items()}
    rows = connection.execute(
        "SELECT m.id, d.address, d.status FROM deliveries d"
        " JOIN messages m ON m.pk = d.message_pk"
    )
    return {
        (keys.get(message, message), address): status
        for message, address, status in rows
    }


def _flights(connection: psycopg.Connection[Any]) -> list[tuple[float, float]]:
    """Return from when to when each send was in flight, in monotonic seconds."""
    rows = connection.execute(
        "SELECT extract(epoch FROM m.received_at)::float8,"
        " extract(epoch FROM coalesce(max(a.finished_at), m.updated_at))::float8"
        " FROM messages m LEFT JOIN attempts a ON a.message_pk = m.pk"
        " WHERE m.direction = 'outbound' GROUP BY m.pk, m.received_at, m.updated_at"
    )
    shift = time.monotonic() - time.time()
    return [(begin + shift, end + shift) for begin, end in rows]


def _events(connection: psycopg.Connection[Any]) -> dict[str, str]:
    """Return every event's id, and what its receiver must have had of it by now.

    An attempt whose worker died is made again after a minute: such an event counts as
    on its way for as long as its row is due.
    """
    rows = connection.execute(
        "SELECT e.id, CASE WHEN e.type NOT LIKE 'message.%' THEN 'untold'"
        " WHEN d.state = 'pending' THEN 'due' ELSE 'told' END"
        " FROM events e LEFT JOIN webhook_dispatches d ON d.event_id = e.id"
    )
    return dict(rows.fetchall())


def of_answers(log: Log) -> Iterable[str]:
    """Say where a key got no message or two, another body none, or a send a 500."""
    for key, found in sorted(log.ids().items()):
        if len(found) != 1:
            yield f"{key} was answered with {len(found)} messages: {sorted(found)}"
    for key, answer in sorted(log.changed.items()):
        if (answer.status, answer.code) != (409, "idempotency_conflict"):
            yield f"{key} with another body got {answer.status} {answer.code}"
    for status, count in sorted(log.statuses.items()):
        if status >= 500 and status != 503:
            yield f"{count} sends were answered {status}"


def of_events(outcome: Outcome, events: Mapping[str, str]) -> Iterable[str]:
    """Say which events reader or receiver did not get, or got in excess."""
    if twice := [one for one, n in Counter(outcome.feed).items() if n > 1]:
        yield f"the feed showed {len(twice)} events twice: {twice[:5]}"
    if unseen := sorted(events.keys() - set(outcome.feed)):
        yield f"the feed never showed {len(unseen)} events: {unseen[:5]}"
    if strange := sorted(set(outcome.feed) - events.keys()):
        yield f"the feed showed {len(strange)} events that are not: {strange[:5]}"
    told = {one for one, state in events.items() if state == "told"}
    if unheard := sorted(told - set(outcome.hooked)):
        yield f"{len(unheard)} events came to no receiver: {unheard[:5]}"


def of_doubts(outcome: Outcome, doubts: Mapping[str, Doubt]) -> Iterable[str]:
    """Say which sends are in doubt without a fault that explains it.

    A send whose worker lived is in doubt for its own sake: its relay read it to the end
    and answered nothing. The others are as many as the dead had in their hands.
    """
    lost = [key for key, doubt in doubts.items() if doubt.phase == WORKER_LOST]
    if len(lost) > outcome.may_be_lost:
        explained = outcome.may_be_lost
        yield f"{len(lost)} sends lost their worker; faults explain {explained}"
    told = {key: one for key, one in doubts.items() if one.phase != WORKER_LOST}
    by_http = [key for key, doubt in told.items() if doubt.provider == "ses"]
    if len(by_http) > outcome.http.get("doubt", 0):
        yield f"{len(by_http)} sends by HTTP are in doubt, of {outcome.http} requests"
    unhurt = sorted(told.keys() - set(by_http) - set(outcome.smtp_doubts))
    if unhurt:
        some = {key: told[key] for key in unhurt[:5]}
        yield f"{len(unhurt)} sends are in doubt that nobody hurt: {some}"


def of_words(outcome: Outcome, ends: Mapping[tuple[str, str], str]) -> Iterable[str]:
    """Say where the provider's word was not followed, or a stranger's was taken."""
    for which, said in sorted(outcome.said.items()):
        if ends.get(which) != said:
            yield f"{which} was told to be {said} and is {ends.get(which)}"
    if believed := {code: n for code, n in outcome.forged.items() if 200 <= code < 300}:
        yield f"forged words were answered {believed}"
    if outcome.said and not outcome.forged.get(403):
        yield f"{TOO_LITTLE}: no forged word was refused, but {dict(outcome.forged)}"


def of_queue(outcome: Outcome, flights: Sequence[tuple[float, float]]) -> Iterable[str]:
    """Say where more tasks waited than twice the sends in flight, beside the copies.

    A send is rung once in ``REDISPATCH`` seconds, so what has ended since then may wait
    as well; copies count from when the queue was last empty.
    """
    if not outcome.lengths:
        yield f"{TOO_LITTLE}: the broker's queue was never measured"
    copied_before = 0
    for one in outcome.lengths:
        since = one.at - REDISPATCH
        flying = sum(began <= one.at and ended >= since for began, ended in flights)
        bound = 2 * flying + one.copied - copied_before
        if one.waiting > bound:
            yield f"{one.waiting} tasks waited; {flying} sends were in flight"
        if one.waiting == 0:
            copied_before = one.copied


def of_effort(outcome: Outcome) -> Iterable[str]:
    """Say where there is more standstill than faults explain, or too few faults."""
    if not outcome.has_rested:
        yield "it did not come to rest in time"
    for at in outcome.blows_at:
        after = next((taken for taken in outcome.taken_at if taken > at), None)
        if after is None or after - at > BACK_AT_WORK:
            waited = "at all" if after is None else f"for {after - at:.0f} s"
            yield f"no mail left {waited} after a blow"
    profile = outcome.profile
    done = outcome.done
    promised = {
        **{
            f"restarts of {what}": (done.get(what, 0), profile.restarts)
            for what in ("database", "broker", "web")
        },
        "kills by the clock": (done.get("kill", 0), profile.kills),
        "freezes": (done.get("freeze", 0), profile.freezes),
        "kills from the wire": (outcome.wire_kills, profile.wire_kills),
        "kills at the HTTP provider": (outcome.http.get("kill", 0), profile.http_kills),
        "HTTP faults": (
            outcome.http.get("definite", 0) + outcome.http.get("doubt", 0),
            profile.http_faults,
        ),
        "SMTP faults": (sum(outcome.smtp_faults.values()), profile.smtp_faults),
        "copies of tasks": (outcome.copied, profile.copies),
    }
    for what, (were, wanted) in promised.items():
        if were < wanted:
            yield f"{TOO_LITTLE}: {were} of {wanted} {what}"
