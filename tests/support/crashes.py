"""A process that dies between two statements, as often as a test likes."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest


class Crash(BaseException):
    """The end of a process: no ``except Exception`` sees it."""


@dataclass
class Statements:
    """How many statements have run, Django's and ours, savepoints among them."""

    count: int = 0


@contextmanager
def dying(after: int | None) -> Iterator[Statements]:
    """Let the block die with Crash once so many statements have run; None: never.

    The statement that is the last takes effect. Where that is the one that ends a
    transaction, it was committed and its caller does not know.
    """
    plain = psycopg.Cursor.execute
    statements = Statements()

    def execute(*args: Any, **options: Any) -> Any:
        cursor = plain(*args, **options)
        statements.count += 1
        if statements.count == after:
            raise Crash
        return cursor

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(psycopg.Cursor, "execute", execute)
        yield statements
