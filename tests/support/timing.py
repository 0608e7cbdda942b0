"""Whether one kind of call takes longer than another: paired, interleaved, repeated.

Processor time of this thread is taken, not the clock on the wall: a loaded machine
stretches the latter. In each round every kind is called once, in a random order, so
that whatever slows the machine slows all of them. A leak is there each time it is
looked for, noise is not: it must show in each of three samples, in one direction.
"""

import random
import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median

Call = Callable[[], object]

SAMPLES = 3


def leaks(calls: Mapping[str, Call], *, rounds: int, bound: float) -> dict[str, float]:
    """Return the kinds that take longer or shorter than the first, and by what share.

    The share is the median of the paired differences over the first kind's median;
    only those over ``bound`` in every sample are named.
    """
    found: dict[str, float] = {}
    for n in range(SAMPLES):
        shares = _shares(_sample(calls, rounds))
        over = {kind: share for kind, share in shares.items() if abs(share) > bound}
        if n > 0:
            over = {
                kind: share
                for kind, share in over.items()
                if kind in found and (share > 0) == (found[kind] > 0)
            }
        found = over
        if not found:
            break
    return found


def _sample(calls: Mapping[str, Call], rounds: int) -> dict[str, list[int]]:
    order = list(calls)
    took: dict[str, list[int]] = {kind: [] for kind in order}
    draw = random.Random(rounds)  # noqa: S311  an order, not a secret
    for _ in range(rounds):
        draw.shuffle(order)
        for kind in order:
            call = calls[kind]
            started = time.thread_time_ns()
            call()
            took[kind].append(time.thread_time_ns() - started)
    return {kind: took[kind] for kind in calls}


def _shares(took: Mapping[str, Sequence[int]]) -> dict[str, float]:
    (_, base), *others = took.items()
    return {
        kind: median(t - b for t, b in zip(times, base, strict=True)) / median(base)
        for kind, times in others
    }
