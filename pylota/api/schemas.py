"""The shapes that the API's own routes have, for the description."""

from typing import Literal

from pydantic import BaseModel


class Health(BaseModel):
    """The process answers."""

    status: Literal["ok"]
