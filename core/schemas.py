"""The shape of every answer that is not 2xx, for the API's description."""

from typing import Any

from pydantic import BaseModel


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
