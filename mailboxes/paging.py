"""Lists, a page at a time: one mechanism for every route (REST contract 1.3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final, TypeVar

from django.db.models import Field, Model, Q, QuerySet
from rest_framework.request import Request

from core.canonical import canonical_json, sha256_hex
from core.clock import database_now
from core.forms import PageQuery
from mailboxes.callers import caller_of
from mailboxes.cursors import Cursor, read_cursor, write_cursor
from mailboxes.keyring_services import current_key, verifying_key
from mailboxes.statuses import KeyPurpose

M = TypeVar("M", bound=Model)

NEWEST_FIRST: Final = ("-created_at", "-id")
_PAGING: Final = frozenset({"limit", "messages_limit", "cursor"})


def page_of(
    found: QuerySet[M],
    request: Request,
    *,
    query: PageQuery,
    render: Callable[[M], Any],
    order: Sequence[str] = NEWEST_FIRST,
) -> dict[str, Any]:
    """Return one page of a list as its JSON: ``data``, and the ``next_cursor``.

    ``order`` names columns of the rows, unique together, all ``-`` or none. The cursor
    is bound to the route, its path and filters, and the calling key. Raises
    InvalidRequest at ``cursor``, or CursorExpired.
    """
    place = _operation(request), _binding(request)
    if query.cursor is not None:
        found = found.filter(_after(found.model, order, _keyset(query.cursor, *place)))
    rows = list(found.order_by(*order)[: query.limit + 1])
    page, following = rows[: query.limit], rows[query.limit :]
    cursor = _cursor(page[-1], order, *place) if following else None
    return {"data": [render(row) for row in page], "next_cursor": cursor}


def _operation(request: Request) -> str:
    match = request.resolver_match
    return match.view_name if match else ""


def _binding(request: Request) -> str:
    """Return a hash of everything that makes this list this list."""
    filters = {
        name: value
        for name, value in request.query_params.items()
        if name not in _PAGING
    }
    path = dict(request.parser_context["kwargs"]) if request.parser_context else {}
    key_id = caller_of(request).key_id
    return sha256_hex(canonical_json({"path": path, "filters": filters, "key": key_id}))


def _keyset(cursor: str, operation: str, binding: str) -> Sequence[Any]:
    now = database_now()
    return read_cursor(
        cursor,
        operation=operation,
        binding=binding,
        find_key=lambda kid: verifying_key(KeyPurpose.CURSOR, kid, now=now),
        now=now,
    )


def _cursor(row: Model, order: Sequence[str], operation: str, binding: str) -> str:
    values = [getattr(row, name.removeprefix("-")) for name in order]
    keyset = [v.isoformat() if isinstance(v, datetime) else v for v in values]
    ended = Cursor(operation, binding, keyset, issued_at=database_now())
    return write_cursor(ended, key=current_key(KeyPurpose.CURSOR))


def _after(model: type[Model], order: Sequence[str], keyset: Sequence[Any]) -> Q:
    """Return the rows past a keyset: (a, b) < (x, y), written for any columns."""
    names = [name.removeprefix("-") for name in order]
    values = [
        _column(model, name).to_python(value)
        for name, value in zip(names, keyset, strict=True)
    ]
    past = "lt" if order[0].startswith("-") else "gt"
    found = Q()
    for name, value in reversed(list(zip(names, values, strict=True))):
        beyond = Q(**{f"{name}__{past}": value})
        found = beyond | (Q(**{name: value}) & found) if found else beyond
    # said again for the first column alone, which an index can answer
    return Q(**{f"{names[0]}__{past}e": values[0]}) & found


def _column(model: type[Model], name: str) -> Field[Any, Any]:
    column = model._meta.get_field(name)
    assert isinstance(column, Field)  # noqa: S101  lists are ordered by columns
    return column
