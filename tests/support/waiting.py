"""Waiting for something that another thread or process will make true."""

import time
from collections.abc import Callable


def until(true: Callable[[], object], *, seconds: float = 10) -> None:
    """Return as soon as ``true()`` is; raise AssertionError when it never is."""
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            raise AssertionError(f"not true within {seconds} s")
        time.sleep(0.005)
