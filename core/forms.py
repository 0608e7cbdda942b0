"""What clients may say: bodies and queries as values, every error with its path.

Only the form is judged here; rules and limits belong to the services.
"""

import re
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Self, TypeVar

from django.http import QueryDict
from drf_spectacular.utils import OpenApiParameter
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
)

from core.errors import MOST_ERRORS, FieldError, InvalidRequest

_INSTANT: Final = re.compile(
    r"\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(\.\d{1,9})?([Zz]|[+-]\d{2}:\d{2})"
)
_DATETIME: Final = TypeAdapter(datetime)

M = TypeVar("M", bound=BaseModel)


class Form(BaseModel):
    """A JSON body: strict types, no field that is not named."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    @classmethod
    def parse(cls, body: dict[str, Any]) -> Self:
        """Return the form; raises InvalidRequest that lists what is wrong, where."""
        return _validated(cls, body)

    def given(self) -> dict[str, Any]:
        """Return the fields that the client named: what a PATCH changes."""
        return {name: getattr(self, name) for name in self.model_fields_set}


class Nothing(Form):
    """The body of a call that needs none: absent, empty, or ``{}``."""


class Query(BaseModel):
    """The parameters after the ``?``: each at most once, none that is not named."""

    model_config = ConfigDict(extra="forbid", frozen=True)

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
        return [
            OpenApiParameter(
                name=name,
                type=_bare(schema),
                required=name in required,
                description=schema.get("description", ""),
            )
            for name, schema in described.get("properties", {}).items()
        ]


_BESIDE: Final = ("title", "description")
_BOUNDS: Final = {"ge": "minimum", "le": "maximum"}
"""What pydantic calls the bounds of a number that it did not read itself."""


def _bare(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a parameter's schema without what stands beside it, or says null."""
    shown = dict(schema)
    if choices := [c for c in shown.pop("anyOf", []) if c.get("type") != "null"]:
        shown |= choices[0]
    if shown.get("default", ...) is None:
        del shown["default"]
    return {_BOUNDS.get(k, k): v for k, v in shown.items() if k not in _BESIDE}


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


class PageQuery(Query):
    """What every list takes (REST contract, section 1.3)."""

    limit: Annotated[Whole, Field(ge=1, le=100, description="Rows of one page.")] = 25
    cursor: Annotated[
        str | None, Field(description="`next_cursor` of the page before.")
    ] = None


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
