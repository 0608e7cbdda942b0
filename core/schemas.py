"""What answers of the API have in common, for its description."""

from collections.abc import Mapping
from typing import Any

from drf_spectacular.utils import OpenApiResponse
from pydantic import BaseModel, Field


class Refusal(BaseModel):
    """What went wrong, and the one next step."""

    code: str
    message: str
    retryable: bool
    fix: str
    request_id: str
    details: dict[str, Any]


class Error(BaseModel):
    """The body of every answer that is not 2xx."""

    error: Refusal


class Page(BaseModel):
    """One page of a list; each list names its ``data``."""

    next_cursor: str | None = Field(
        description="Pass it as `cursor` for the next page; null on the last."
    )


def refusals(texts: Mapping[int, str]) -> dict[int, OpenApiResponse]:
    """Return the refusals of one route, by status, with what each says of its codes."""
    return {
        status: OpenApiResponse(Error, description=text)
        for status, text in texts.items()
    }
