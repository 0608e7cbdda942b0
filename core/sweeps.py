"""Sweeps: listed without locks, one transaction a row, and no row stops the others."""

from collections.abc import Callable, Iterable
from typing import TypeVar

import structlog
from django.db import connection

T = TypeVar("T")


def one_by_one(name: str, rows: Iterable[T], do: Callable[[T], bool]) -> int:
    """Do it for each row, and return for how many it was done.

    A row that fails is logged as ``{name}_failed`` and left for the next sweep: the
    oldest would else fail first every time, and nothing behind it would be reached.
    Raises what the row raised when the session itself is lost.
    """
    done = 0
    for row in rows:
        try:
            done += do(row)
        except Exception as error:
            if not connection.is_usable():
                raise
            structlog.get_logger().warning(f"{name}_failed", exc_info=error)
    return done
