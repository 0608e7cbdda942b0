"""What clients may say: bodies and queries as values, every error with its path.

Only the form is judged here; rules and limits belong to the services.
"""

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Annotated, Any, Final, Self, TypeVar

from django.http import QueryDict
from drf_spectacular.utils import OpenApiParameter
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from core.errors import MOST_ERRORS, FieldError, InvalidRequest

_INSTANT: Final = re.compile(
    r"\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(\.\d{1,9})?([Zz]|[+-]\d{2}:\d{2})"
)
_DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_DATETIME: Final = TypeAdapter(datetime)

M = TypeVar("M", bound=BaseModel)


class Form(BaseModel):
    """A JSON body: strict types, no field that is not named."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, defer_build=True
    )

    @classmethod
    def parse(cls, body: dict[str, Any]) -> Self:
        """Return the form; raises InvalidRequest that lists what is wrong, where."""
        return _validated(cls, _whole_numbers(body))

    def given(self) -> dict[str, Any]:
        """Return the fields that the client named: what a PATCH changes."""
        return {name: getattr(self, name) for name in self.model_fields_set}


class Nothing(Form):
    """The body of a call that needs none: absent, empty, or ``{}``."""


class Query(BaseModel):
    """The parameters after the ``?``: each at most once, none that is not named."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    @classmethod
    def parse(cls, parameters: QueryDict) -> Self:
        """Return the query; raises InvalidRequest that lists what is wrong, where."""
        for name, values in parameters.lists():
            if len(values) > 1:
                raise InvalidRequest.at(name, "This parameter is given twice.")
            if "\x00" in values[0]:
                raise InvalidRequest.at(name, "No text holds the character U+0000.")
        return _validated(cls, parameters.dict())

    @classmethod
    def parameters(cls) -> list[OpenApiParameter]:
        """Return the parameters for the API's description."""
        described = cls.model_json_schema()
        required = described.get("required", [])
        shared = described.get("$defs", {})
        found = {
            name: _resolved(schema, shared)
            for name, schema in described.get("properties", {}).items()
        }
        return [
            OpenApiParameter(
                name=name,
                type=_bare(schema),
                required=name in required,
                description=schema.get("description", ""),
            )
            for name, schema in found.items()
        ]


_BESIDE: Final = ("title", "description")
_BOUNDS: Final = {"ge": "minimum", "le": "maximum"}
"""What pydantic calls the bounds of a number that it did not read itself."""


def _resolved(schema: dict[str, Any], shared: dict[str, Any]) -> dict[str, Any]:
    """Return a schema that stands by itself: a parameter that is absent is not null."""
    shown = dict(schema)
    if choices := [c for c in shown.pop("anyOf", []) if c.get("type") != "null"]:
        shown = choices[0] | shown
    if (reference := shown.pop("$ref", None)) is not None:
        shown = shared[reference.removeprefix("#/$defs/")] | shown
    return shown


def _bare(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a parameter's schema without what stands beside it."""
    shown = dict(schema)
    if shown.get("default", ...) is None:
        del shown["default"]
    return {_BOUNDS.get(k, k): v for k, v in shown.items() if k not in _BESIDE}


def _whole_numbers(value: Any) -> Any:
    """Return a body with 3 for 3.0: one number, to JSON Schema and to people."""
    if isinstance(value, dict):
        return {name: _whole_numbers(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_whole_numbers(inner) for inner in value]
    is_whole = isinstance(value, float) and value.is_integer()
    return int(value) if is_whole else value


def _whole(value: Any) -> Any:
    if isinstance(value, str) and value.isascii() and value.isdecimal():
        return int(value[:9])
    raise ValueError("a whole number is needed")


def _flag(value: Any) -> Any:
    if value in ("true", "false"):
        return value == "true"
    raise ValueError("it is true or false")


def _instant(value: Any) -> Any:
    if isinstance(value, str) and _INSTANT.fullmatch(value):
        try:
            return _DATETIME.validate_python(value.upper()).astimezone(UTC)
        except (ValidationError, OverflowError):
            pass
    raise ValueError("an RFC 3339 instant is needed, e.g. 2026-11-02T09:15:20Z")


def _day(value: Any) -> Any:
    if isinstance(value, str) and _DAY.fullmatch(value):
        try:
            return date.fromisoformat(value)
        except ValueError:
            pass
    raise ValueError("a day is needed, e.g. 2026-11-02")


Whole = Annotated[int, BeforeValidator(_whole)]
"""A whole number of a query."""
Flag = Annotated[bool, BeforeValidator(_flag), WithJsonSchema({"type": "boolean"})]
"""``true`` or ``false`` in a query."""
Instant = Annotated[
    datetime,
    BeforeValidator(_instant),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
"""An RFC 3339 instant with its offset, in a body or a query; read as UTC."""
Day = Annotated[
    date,
    BeforeValidator(_day),
    WithJsonSchema({"type": "string", "format": "date"}),
]
"""A day of the calendar in a query, without a zone."""


@dataclass(frozen=True, slots=True)
class Shown:
    """One word more of a field's schema: described, and judged elsewhere."""

    word: str
    value: Any

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Return the schema with the word."""
        return {**handler(schema), self.word: self.value}


CursorText = Annotated[
    str,
    Field(description="`next_cursor` of the page before."),
    Shown("pattern", "^c_[A-Za-z0-9_-]+$"),
]
"""A cursor as it is described; whether it is one of ours is for its reader to say."""


class PageQuery(Query):
    """What every list takes (REST contract, section 1.3)."""

    limit: Annotated[Whole, Field(ge=1, le=100, description="Rows of one page.")] = 25
    cursor: CursorText | None = None


def _validated(form: type[M], value: dict[str, Any]) -> M:
    try:
        return form.model_validate(value)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        raise InvalidRequest(
            "The request does not have the documented form.",
            errors=[
                FieldError(_path(item["loc"]), item["msg"])
                for item in found[:MOST_ERRORS]
            ],
        ) from None


def _path(location: tuple[int | str, ...]) -> str:
    """Return a place as clients read it, e.g. ``to[1].address``."""
    path = ""
    for part in location:
        path += f"[{part}]" if isinstance(part, int) else f".{part}"
    return path.removeprefix(".")
