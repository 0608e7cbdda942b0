"""The shapes that the API's own routes have, for the description."""

from typing import Any, ClassVar, Literal

from pydantic import BaseModel


class Health(BaseModel):
    """The process answers."""

    example: ClassVar[dict[str, Any]] = {"status": "ok"}

    status: Literal["ok"]
