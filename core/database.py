"""Hot statements: prepared on the server, inside Django's transaction.

Django binds parameters on the client, so nothing is ever prepared. A plain psycopg
cursor on the same connection takes part in the same transaction and prepares a
statement after a few runs. Errors arrive as Django's (``OperationalError`` and so on).
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, LiteralString

import psycopg
from django.db import (
    Error,
    InterfaceError,
    InternalError,
    OperationalError,
    connection,
)

AWAY: Final = (OperationalError, InterfaceError, InternalError)
"""What a session that is lost, refused or too slow raises.

InternalError is how one arrives that PostgreSQL has ended because it stood idle in a
transaction (25P03): the process was frozen, and goes on.
"""

_NOT_FOR_PSYCOPG: Final = frozenset(
    {"cursor_factory", "context", "prepare_threshold", "pool"}
)

Row = tuple[Any, ...]
Parameters = Mapping[str, Any] | None


@contextmanager
def _executed(
    sql: LiteralString, parameters: Parameters
) -> Iterator[psycopg.Cursor[Row]]:
    connection.close_if_health_check_failed()  # as Django's own cursor does
    connection.ensure_connection()
    started = time.monotonic()
    with connection.wrap_database_errors, psycopg.Cursor(connection.connection) as cur:
        cur.execute(sql, parameters)
        if connection.queries_logged:
            took = f"{time.monotonic() - started:.3f}"
            connection.queries_log.append({"sql": sql, "time": took})
        yield cur


def fetch_one(sql: LiteralString, parameters: Parameters = None) -> Row | None:
    """Run one statement and return its first row, or None."""
    with _executed(sql, parameters) as cursor:
        return cursor.fetchone()


def fetch_all(sql: LiteralString, parameters: Parameters = None) -> list[Row]:
    """Run one statement and return all its rows."""
    with _executed(sql, parameters) as cursor:
        return cursor.fetchall()


def execute(sql: LiteralString, parameters: Parameters = None) -> int:
    """Run one statement and return the number of rows it touched."""
    with _executed(sql, parameters) as cursor:
        return cursor.rowcount


def session_parameters() -> dict[str, Any]:
    """Return what opens a connection like Django's, without going through Django."""
    given = connection.get_connection_params()
    return {name: given[name] for name in given.keys() - _NOT_FOR_PSYCOPG}


def sqlstate(error: Error) -> str | None:
    """Return PostgreSQL's code for what went wrong, e.g. ``55P03`` for a lock time-out.

    None when the connection went away before the server could say anything.
    """
    cause = error.__cause__
    return cause.sqlstate if isinstance(cause, psycopg.Error) else None
