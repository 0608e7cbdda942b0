"""The text of ``docs/states.md``, from the tables that the code itself uses."""

from collections.abc import Iterable, Sequence
from typing import Final

from delivery.rollup import FINAL, LATE, roll_up
from delivery.statuses import ACCEPTED, TRANSITIONS, DeliveryKind, DeliveryStatus
from mailboxes.statuses import MessageStatus
from outbound.backoff import GIVE_UP_AFTER, JITTER, SECONDS
from outbound.outcomes import outcome_of
from outbound.transports.base import (
    Accepted,
    RecipientSuppressed,
    Rejected,
    RejectReason,
    RetryClass,
    RetryLater,
    TransportResult,
    UncertainReason,
    Unknown,
)

NOTHING: Final = "-"
_ONE: Final = "a@example.net"
_RESULTS: Final[tuple[tuple[str, TransportResult], ...]] = (
    ("accepted", Accepted("id")),
    ("accepted, this recipient deferred", Accepted("id", deferred=(_ONE,))),
    ("accepted, this recipient suppressed", Accepted("id", suppressed=(_ONE,))),
    ("rejected", Rejected(RejectReason.PROVIDER_VALIDATION, "550", "")),
    ("somebody is suppressed, nobody can tell who", RecipientSuppressed("E", "")),
    ("try later", RetryLater(RetryClass.RELAY, "451")),
    ("unknown", Unknown(UncertainReason.TIMEOUT, "")),
)


def states_document() -> str:
    """Return the whole page."""
    sections = (
        _INTRODUCTION,
        _calls(),
        _back_off(),
        _transitions(),
        _roll_up(),
        _final(),
    )
    return "\n\n".join(sections) + "\n"


_INTRODUCTION: Final = """\
# States

Generated from the tables in `delivery/statuses.py`, `delivery/rollup.py`,
`outbound/outcomes.py` and `outbound/backoff.py` by `make docs`; `make check` compares.
A *delivery* is one recipient of one message. Its status moves by the end of a transport
call, by what a provider says later, or by a person's answer; the message's status
follows from its deliveries."""


def _calls() -> str:
    rows = [[name, *_after_call(result)] for name, result in _RESULTS]
    table = _table(["The call ended", "a queued delivery becomes", "again?"], rows)
    return f"## The end of a transport call\n\n{table}"


def _after_call(result: TransportResult) -> tuple[str, str]:
    outcome = outcome_of(result, queued=[_ONE])
    moved = [str(change.status) for change in outcome.changes]
    again = f"yes, back-off `{outcome.retry}`" if outcome.retry else "never"
    return (moved[0] if moved else "queued, as before", again)


def _back_off() -> str:
    numbers = range(1, 9)
    rows = [
        [f"`{retry}`", *(f"{seconds(n):g}" for n in numbers)]
        for retry, seconds in SECONDS.items()
    ]
    hours = GIVE_UP_AFTER.total_seconds() / 3600
    return (
        "## Back-off, in seconds by the number of the retry\n\n"
        + _table(["", *(str(n) for n in numbers)], rows)
        + f"\n\nEach moves by up to {JITTER:.0%} either way. A retry that would fall "
        f"over {hours:g} h after the submit is not made: the rest becomes `failed`."
    )


def _transitions() -> str:
    rows = [
        [f"`{status}`", *(_after(status, kind) for kind in DeliveryKind)]
        for status in DeliveryStatus
    ]
    return (
        "## What a provider says later\n\n"
        + _table(["Delivery", *(f"says {kind}" for kind in DeliveryKind)], rows)
        + f"\n\n`{NOTHING}` is stale: nothing changes, and no event is told. A unit is "
        f"charged once, when a delivery first becomes one of {_words(ACCEPTED)}."
    )


def _after(status: DeliveryStatus, kind: DeliveryKind) -> str:
    found = TRANSITIONS.get((status, kind))
    return NOTHING if found is None else str(found)


def _roll_up() -> str:
    statuses = [s for s in DeliveryStatus if s != DeliveryStatus.SUPPRESSED]
    rows = [
        [f"`{one}`", *(_of_two(one, other) for other in statuses)] for one in statuses
    ]
    return (
        "## The message's status, with two deliveries\n\n"
        "Suppressed deliveries do not count; with no others the message is "
        "`suppressed`. A doubtful delivery keeps the message `uncertain` only as long "
        "as nothing else of it is open.\n\n"
        + _table(["", *(f"`{status}`" for status in statuses)], rows)
    )


def _of_two(one: DeliveryStatus, other: DeliveryStatus) -> str:
    in_doubt = DeliveryStatus.UNCERTAIN in {one, other}
    current = MessageStatus.UNCERTAIN if in_doubt else MessageStatus.QUEUED
    return str(roll_up(current, [one, other]))


def _final() -> str:
    late = [f"`{before}` to `{after}`" for before, after in sorted(LATE)]
    return (
        "## The end\n\n"
        f"A message that is {_words(FINAL)} stays so, but for what can come late: "
        + ", ".join(late)
        + "."
    )


def _words(statuses: Iterable[str]) -> str:
    return ", ".join(f"`{status}`" for status in sorted(statuses))


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
