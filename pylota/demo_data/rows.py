"""Rows by table, and how they get into the database: ``COPY``, as fast as it goes."""

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime
from typing import Any, Final, LiteralString
from uuid import UUID

from django.db import connection
from psycopg import sql

Row = Mapping[str, Any]

ORDER: Final[tuple[LiteralString, ...]] = (
    *("threads", "messages", "deliveries", "attempts", "outbound_state", "holds"),
    *("idempotency", "events", "provider_events", "suppressions", "contacts"),
    *("outcomes", "counters", "usage_daily", "audit_log", "alerts"),
    *("transport_breakers", "webhook_endpoints", "webhook_dispatches"),
    "webhook_attempts",
)


class Rows:
    """Rows that wait to be written; all rows of a table have the same columns."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[Row]] = {}
        self.written: dict[str, int] = {}

    def add(self, table: str, row: Row) -> None:
        """Let a row be written with the next that are."""
        self._waiting.setdefault(table, []).append(row)

    def write(self) -> None:
        """Write what waits; joins the caller's transaction."""
        for table in ORDER:
            if rows := self._waiting.pop(table, []):
                copy_in(table, rows)
                self.written[table] = self.written.get(table, 0) + len(rows)
        if self._waiting:
            raise RuntimeError(f"no order is known for {sorted(self._waiting)}")


def copy_in(table: LiteralString, rows: list[Row]) -> None:
    """Write rows of one table; a tuple is an array, a list or a mapping is JSON."""
    command = sql.SQL("COPY {} ({}) FROM STDIN").format(
        sql.Identifier(table), sql.SQL(", ").join(map(sql.Identifier, rows[0]))
    )
    connection.ensure_connection()
    with (
        connection.wrap_database_errors,
        connection.connection.cursor() as cursor,
        cursor.copy(command) as copy,
    ):
        copy.write("".join(_lines(rows)).encode())


def take_keys(table: LiteralString, column: LiteralString, count: int) -> list[int]:
    """Return so many fresh values of a table's own sequence, rising."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT nextval(pg_get_serial_sequence(%s, %s))"
            " FROM generate_series(1, %s)",
            [table, column, count],
        )
        return [int(key) for (key,) in cursor.fetchall()]


def _lines(rows: Iterable[Row]) -> Iterable[str]:
    for row in rows:
        yield "\t".join([_AS_TEXT[type(v)](v) for v in row.values()]) + "\n"


def _plain(text: str) -> str:
    """Return a text as COPY takes it: what would end a value is escaped."""
    if "\\" in text:
        text = text.replace("\\", "\\\\")
    if text.isprintable():
        return text
    return text.replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")


def _json(value: object) -> str:
    return _plain(_encode(value))


def _array(values: tuple[object, ...]) -> str:
    return _plain("{" + ",".join(_quoted(str(one)) for one in values) + "}")


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


_encode: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_AS_TEXT: Final[Mapping[type, Callable[[Any], str]]] = {
    type(None): lambda nothing: "\\N",
    str: _plain,
    bool: lambda is_so: "t" if is_so else "f",
    int: str,
    UUID: str,
    date: date.isoformat,
    datetime: datetime.isoformat,
    tuple: _array,
    list: _json,
    dict: _json,
}
"""How a value of each kind is written; another kind is a mistake."""
