"""What answers of the API have in common, for its description."""

from collections.abc import Mapping
from typing import Any, Final, get_args

from drf_spectacular.utils import OpenApiResponse
from pydantic import BaseModel, ConfigDict, Field


class Shape(BaseModel):
    """What an answer looks like; built when the description is asked for."""

    model_config = ConfigDict(defer_build=True)


class Refusal(Shape):
    """What went wrong, and the one next step."""

    code: str
    message: str
    retryable: bool
    fix: str
    request_id: str
    details: dict[str, Any]


class Error(Shape):
    """The body of every answer that is not 2xx."""

    error: Refusal


class Page(Shape):
    """One page of a list; each list names its ``data``, whose rows have an example."""

    next_cursor: str | None = Field(
        description="Pass it as `cursor` for the next page; null on the last."
    )


def example_of(shape: Any) -> Any:
    """Return the example that a shape has for the description; None if it has none."""
    if isinstance(shape, type) and issubclass(shape, Page):
        (row,) = get_args(shape.model_fields["data"].annotation)
        return {"data": [row.example], "next_cursor": None}
    return getattr(shape, "example", None)


NO_BODY: Final = "`invalid_request`: the call takes no body."


def refusals(texts: Mapping[int, str]) -> dict[int, OpenApiResponse]:
    """Return the refusals of one route, by status, with what each says of its codes."""
    return {
        status: OpenApiResponse(Error, description=text)
        for status, text in texts.items()
    }
