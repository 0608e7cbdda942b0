"""Bodies and queries as values: what is refused, and where it says so."""

from datetime import UTC, datetime
from typing import Annotated

import pytest
from django.http import QueryDict
from pydantic import Field

from core.errors import InvalidRequest
from core.forms import Flag, Form, Instant, PageQuery, Query, Whole


class Inner(Form):
    """A nested value."""

    name: str


class Outer(Form):
    """A body."""

    many: list[Inner]
    count: int = 0
    since: Instant | None = None


class Listed(PageQuery):
    """A list with filters."""

    archived: Annotated[Flag | None, Field(description="Only these.")] = None
    after: Instant | None = None
    depth: Whole = 1


def paths(refusal: pytest.ExceptionInfo[InvalidRequest]) -> list[str]:
    return [error["path"] for error in refusal.value.details["errors"]]


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({}, "many"),
        ({"many": [{"name": 1}]}, "many[0].name"),
        ({"many": [{"name": "a"}, {"name": "b", "x": 1}]}, "many[1].x"),
        ({"many": [], "count": "1"}, "count"),
        ({"many": [], "count": True}, "count"),
        ({"many": [], "other": 1}, "other"),
        ({"many": [], "since": 1}, "since"),
        ({"many": [], "since": "2026-11-02"}, "since"),
        ({"many": [], "since": "2026-11-02T09:15:20"}, "since"),
        ({"many": [], "since": "2026-13-02T09:15:20Z"}, "since"),
    ],
)
def test_a_wrong_body_is_refused_at_its_path(
    body: dict[str, object], path: str
) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        Outer.parse(body)

    assert paths(refusal) == [path]


def test_a_patch_changes_the_named_fields_and_no_others() -> None:
    assert Outer.parse({"many": [], "since": None}).given() == {
        "many": [],
        "since": None,
    }


@pytest.mark.parametrize(
    "text",
    ["2026-11-02T09:15:20Z", "2026-11-02t10:15:20+01:00", "2026-11-02T09:15:20.000Z"],
)
def test_an_instant_is_read_as_utc(text: str) -> None:
    read = Outer.parse({"many": [], "since": text}).since

    assert read == datetime(2026, 11, 2, 9, 15, 20, tzinfo=UTC)
    assert read is not None
    assert read.tzinfo is UTC


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("limit=1.0", "limit"),
        ("limit=+1", "limit"),
        ("limit=1_0", "limit"),
        ("archived=yes", "archived"),
        ("archived=True", "archived"),
        ("after=2026-11-02T09:15:20%2B25:00", "after"),
        ("after=0001-01-01T00:00:00%2B14:00", "after"),
        ("unknown=1", "unknown"),
        ("limit=1&limit=2", "limit"),
        ("cursor=c%00", "cursor"),
    ],
)
def test_a_wrong_query_is_refused_at_its_parameter(query: str, path: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        Listed.parse(QueryDict(query))

    assert paths(refusal) == [path]


def test_a_query_is_read_from_its_texts() -> None:
    read = Listed.parse(QueryDict("limit=7&archived=false&cursor=c_x"))

    assert (read.limit, read.archived, read.cursor) == (7, False, "c_x")


def test_a_query_describes_its_parameters() -> None:
    class Needed(Query):
        """One parameter that must be there."""

        address: Annotated[str, Field(description="Whose it is.")]

    described = {found.name: found for found in Listed.parameters()}

    assert described["archived"].type == {"type": "boolean"}
    assert described["limit"].type == {
        "type": "integer",
        "minimum": 1,
        "maximum": 100,
        "default": 25,
    }
    assert not described["limit"].required
    assert Needed.parameters()[0].required
