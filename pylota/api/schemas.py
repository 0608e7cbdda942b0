"""The shapes that the API's own routes have, for the description."""

from typing import Any, ClassVar, Literal

from core.schemas import Shape


class Health(Shape):
    """The process answers."""

    example: ClassVar[dict[str, Any]] = {"status": "ok"}

    status: Literal["ok"]
