"""Chance with a seed: the same seed and instant draw the same deployment."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from random import Random
from typing import Final, TypeVar
from uuid import UUID

from core.ids import Prefix

T = TypeVar("T")

_DIGITS: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS: Final = tuple(high + low for high in _DIGITS for low in _DIGITS)


class Draw:
    """Draws ids, instants and choices. ``now`` is the latest instant of all."""

    def __init__(self, seed: int, *, now: datetime) -> None:
        self.random = Random(seed)  # noqa: S311  nothing here is a secret
        self.now = now

    def id(self, prefix: Prefix, at: datetime) -> str:
        """Return an id of a kind, whose ULID says when it was made."""
        number = int(at.timestamp() * 1000) << 80 | self.random.getrandbits(80)
        pairs = [_PAIRS[number >> shift & 1023] for shift in range(120, -1, -10)]
        return f"{prefix}_{''.join(pairs)}"

    def digest(self) -> str:
        """Return what looks like a SHA-256, in hex."""
        return f"{self.random.getrandbits(256):064x}"

    def uuid(self) -> UUID:
        """Return a random UUID."""
        return UUID(int=self.random.getrandbits(128), version=4)

    def chance(self, part: float) -> bool:
        """Return true in this part of all cases."""
        return self.random.random() < part

    def one_of(self, things: Sequence[T]) -> T:
        """Return one of them, each as likely."""
        return things[int(self.random.random() * len(things))]

    def weighted(self, table: Sequence[tuple[T, int]]) -> T:
        """Return one of a table of things and weights."""
        things = [thing for thing, _ in table]
        return self.random.choices(things, [weight for _, weight in table])[0]

    def after(self, at: datetime, seconds: float, *, spread: float = 0.8) -> datetime:
        """Return an instant about so many seconds later, and never past ``now``."""
        wait = seconds * self.random.lognormvariate(0, spread)
        return min(at + timedelta(milliseconds=int(wait * 1000)), self.now)

    def before_now(self, minutes: float) -> datetime:
        """Return an instant within the last so many minutes, to the millisecond."""
        wait = self.random.random() * minutes * 60_000
        return self.now - timedelta(milliseconds=1 + int(wait))
