"""How long something takes, on this host: durations only, never an instant."""

import time

_CLOCK_ID = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def elapsed_clock() -> float:
    """Return seconds that also pass while the machine is suspended.

    Only differences mean anything. ``CLOCK_BOOTTIME`` where there is one.
    """
    return time.clock_gettime(_CLOCK_ID)
