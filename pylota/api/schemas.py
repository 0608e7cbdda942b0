"""The shapes that the API's own routes have, for the description."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel


class Health(BaseModel):
    """The process answers."""

    status: Literal["ok"]


class Key(BaseModel):
    """An API key, without its secret."""

    id: str
    name: str
    level: Literal["platform", "tenant", "identity"]
    mode: Literal["live", "test"]
    tenant_id: str | None
    identity_id: str | None
    permissions: list[str]
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    created_at: datetime
