"""Which messages there were: when, whose, and what became of each. In order of time."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Final

from mailboxes.statuses import Provider
from pylota.demo_data.draw import Draw
from pylota.demo_data.senders import Sender
from pylota.demo_data.shapes import (
    DAYS,
    FATES,
    OF_THE_OUTAGE,
    OUTAGE,
    OUTAGE_MINUTES,
    SINCE_YESTERDAY,
    WITHOUT_FEEDBACK,
)

BY_HOUR: Final = (1, 1, 1, 1, 1, 2, 4, 7, 10, 12, 12, 11, 10, 11, 11, 10, 9, 8, 7, 6)
"""How much is sent in each hour of a day in UTC; the rest of the night is quiet."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A message to be told of: when it was accepted, whose it was, and its fate."""

    at: datetime
    sender: Sender
    fate: str


class NotPossible(Exception):
    """So many of this cannot be among so few of that."""


def plan(
    senders: list[Sender], draw: Draw, *, messages: int, uncertain: int
) -> list[Planned]:
    """Return what there was, oldest first: every fate at least once.

    Raises NotPossible when the uncertain sends leave no room for one of each fate.
    """
    others = [name for name, fate in FATES.items() if fate.share]
    rest = messages - uncertain
    if rest < len(others):
        raise NotPossible(
            f"--messages {messages} has no room for {uncertain} uncertain sends and "
            f"{len(others)} others"
        )
    weights = [FATES[name].share for name in others]
    drawn = draw.random.choices(others, weights, k=rest - len(others))
    choose = _chooser(senders, draw)
    found = [_one(fate, choose(), draw) for fate in (*others, *drawn)]
    found += _outage(senders, draw, round(uncertain * OF_THE_OUTAGE))
    while len(found) < messages:
        found.append(Planned(_instant(draw, recent=True), choose(), "uncertain"))
    return sorted(found, key=lambda one: one.at)


def _chooser(senders: list[Sender], draw: Draw) -> "_Chooser":
    return _Chooser(senders, list(accumulate(one.weight for one in senders)), draw)


@dataclass(frozen=True, slots=True)
class _Chooser:
    senders: list[Sender]
    upto: list[float]
    draw: Draw

    def __call__(self) -> Sender:
        return self.draw.random.choices(self.senders, cum_weights=self.upto)[0]


def _one(fate: str, sender: Sender, draw: Draw) -> Planned:
    at = _instant(draw, recent=FATES[fate].recent)
    if sender.provider == Provider.SMTP:
        fate = WITHOUT_FEEDBACK.get(fate, fate)
    return Planned(at, sender, fate)


def _outage(senders: list[Sender], draw: Draw, count: int) -> list[Planned]:
    """Return what was sent while one domain's answers were lost."""
    hit = [sender for sender in senders if sender.domain == OUTAGE]
    return [
        Planned(draw.before_now(OUTAGE_MINUTES), draw.one_of(hit), "uncertain")
        for _ in range(count)
    ]


def _instant(draw: Draw, *, recent: bool) -> datetime:
    """Return when: by the hour of the day, more of it lately, or within two hours."""
    if recent:
        return draw.before_now(120)
    if draw.chance(SINCE_YESTERDAY):
        return draw.before_now(48 * 60)
    day = draw.now - timedelta(days=2 + draw.random.random() * (DAYS - 2))
    hour = draw.random.choices(range(len(BY_HOUR)), BY_HOUR)[0]
    minute, milli = draw.random.randrange(60), draw.random.randrange(60_000)
    return min(
        day.replace(hour=hour, minute=minute, second=0, microsecond=0)
        + timedelta(milliseconds=milli),
        draw.now - timedelta(minutes=3),
    )
