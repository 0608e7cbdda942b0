"""What came out, held against what clients were told: counted from outside, then read.

The invariants are those of every fault test (``tests/support/invariants.py``); here
they are asked of a whole run, with what only a run can show.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import psycopg

from chaos.clients import Log
from chaos.profiles import PARALLEL, TOO_LITTLE, WORKERS, Profile
from tests.support.invariants import Copies, books, broken

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
    smtp_doubts: int
    copied: int
    has_rested: bool

    @property
    def kills(self) -> int:
        """Return how many processes ended by SIGKILL, the web as one."""
        return self.killed + self.done.get("web", 0)

    @property
    def may_be_uncertain(self) -> int:
        """Return how many sends the faults can have left in doubt.

        A worker that dies or stands still had so many calls in its hands at most; the
        database's end leaves each worker with as many that it may not get recorded.
        """
        lost = self.killed + self.done.get("freeze", 0)
        lost += WORKERS * self.done.get("database", 0)
        return lost * PARALLEL + self.smtp_doubts


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
        events = _events(connection)
    duplicates = sum(count > 1 for count in outcome.copies.values())
    lost = sum(_is_loss(breach) for breach in of_rows)
    drift = sum(breach.startswith("I4") for breach in of_rows)
    breaches = [
        *of_rows,
        *of_answers(outcome.log),
        *of_events(outcome, events),
        *of_effort(outcome, uncertain=states["uncertain"]),
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


def of_effort(outcome: Outcome, *, uncertain: int) -> Iterable[str]:
    """Say where there is more doubt or standstill than faults, or too few of those."""
    if uncertain > outcome.may_be_uncertain:
        yield (
            f"{uncertain} sends are uncertain; the faults explain"
            f" {outcome.may_be_uncertain}"
        )
    if not outcome.has_rested:
        yield "it did not come to rest in time"
    for at in outcome.blows_at:
        after = next((taken for taken in outcome.taken_at if taken > at), None)
        if after is not None and after - at > BACK_AT_WORK:
            yield f"no mail left for {after - at:.0f} s after a blow"
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
        "SMTP faults": (sum(outcome.smtp_faults.values()), profile.smtp_faults),
        "copies of tasks": (outcome.copied, profile.copies),
    }
    for what, (were, wanted) in promised.items():
        if were < wanted:
            yield f"{TOO_LITTLE}: {were} of {wanted} {what}"
