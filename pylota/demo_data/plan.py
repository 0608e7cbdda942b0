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

RECENT_MINUTES: Final = 120
STOPPED_FOR: Final = timedelta(days=3)
"""How long those have been stopped that are paused or suspended."""


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
    choose = _Chooser(senders, draw)
    # the first of each has a sender of whom every fate is heard
    found = [Planned(_instant(draw, fate), senders[0], fate) for fate in others]
    found += [_one(fate, choose, draw) for fate in drawn]
    found += _outage(senders, draw, round(uncertain * OF_THE_OUTAGE))
    while len(found) < messages:
        at = draw.before_now(RECENT_MINUTES)
        found.append(Planned(at, choose(at), "uncertain"))
    return sorted(found, key=lambda one: one.at)


class _Chooser:
    """Chooses who sent something, by weight; whoever was stopped sent it long ago."""

    def __init__(self, senders: list[Sender], draw: Draw) -> None:
        self._draw = draw
        self._all = senders, list(accumulate(one.weight for one in senders))
        left = [one for one in senders if not one.is_stopped]
        self._left = left, list(accumulate(one.weight for one in left))

    def __call__(self, at: datetime) -> Sender:
        is_old = at < self._draw.now - STOPPED_FOR
        senders, upto = self._all if is_old else self._left
        return self._draw.random.choices(senders, cum_weights=upto)[0]


def _one(fate: str, choose: _Chooser, draw: Draw) -> Planned:
    at = _instant(draw, fate)
    sender = choose(at)
    if sender.provider == Provider.SMTP:
        fate = WITHOUT_FEEDBACK.get(fate, fate)
    return Planned(at, sender, fate)


def _outage(senders: list[Sender], draw: Draw, count: int) -> list[Planned]:
    """Return what was sent while one domain's answers were lost."""
    hit = [one for one in senders if one.domain == OUTAGE and not one.is_stopped]
    return [
        Planned(draw.before_now(OUTAGE_MINUTES), draw.one_of(hit), "uncertain")
        for _ in range(count)
    ]


def _instant(draw: Draw, fate: str) -> datetime:
    """Return when: by the hour of the day, more of it lately, or within two hours."""
    if FATES[fate].recent:
        return draw.before_now(RECENT_MINUTES)
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
