"""Sweeps: listed without locks, one transaction a row, and no row stops the others."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, LiteralString, TypeVar

import structlog
from django.db import connection

from core.database import execute

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


def until_none(statement: LiteralString, parameters: Mapping[str, Any]) -> int:
    """Repeat a bounded statement until it changes no row; return how many it changed.

    Each is a transaction of its own, so that nobody waits behind a long one.
    """
    changed = 0
    while (rows := execute(statement, parameters)) > 0:
        changed += rows
    return changed
