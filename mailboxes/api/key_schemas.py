"""What may be said of API keys, and how they are shown."""

from datetime import datetime
from typing import Annotated, Any, ClassVar, Final

from pydantic import Field

from core.forms import Form, Instant
from core.schemas import Page, Shape
from mailboxes.scopes import Scope
from mailboxes.statuses import KeyLevel, TenantMode

KEY_EXAMPLE: Final[dict[str, Any]] = {
    "id": "key_01K9ZT3N4C6Y8QF5R7W2V1X0AB",
    "name": "bookings worker",
    "level": "identity",
    "mode": "live",
    "tenant_id": "ten_01K9ZT3N4C6Y8QF5R7W2V1X0AB",
    "identity_id": "idn_01K9ZT3N4C6Y8QF5R7W2V1X0AB",
    "permissions": ["messages:read", "messages:send"],
    "expires_at": None,
    "revoked_at": None,
    "last_used_at": None,
    "created_at": "2026-11-02T09:15:20.114Z",
}
Permission = Annotated[Scope, Field(strict=False)]


class KeyForm(Form):
    """A key to make, no wider than the calling one.

    With an identity it is the identity's, with a tenant alone the tenant's; with
    neither it reaches as far as the calling key.
    """

    name: Annotated[
        str, Field(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]+$")
    ]
    permissions: Annotated[list[Permission], Field(min_length=1)]
    tenant_id: str | None = None
    identity_id: str | None = None
    expires_at: Instant | None = None


class RotateForm(Form):
    """For how long the secret before goes on counting."""

    example: ClassVar[dict[str, Any]] = {"overlap_hours": 24}

    overlap_hours: Annotated[
        int, Field(ge=0, le=168, description="0 ends the secret before at once.")
    ] = 24


class Key(Shape):
    """An API key, without its secret."""

    example: ClassVar[dict[str, Any]] = KEY_EXAMPLE

    id: str
    name: str
    level: KeyLevel
    mode: TenantMode
    tenant_id: str | None
    identity_id: str | None
    permissions: list[Scope]
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    created_at: datetime


class KeyWithSecret(Key):
    """An API key and its secret, which is shown this once."""

    secret: str | None = Field(
        default=None, description="Absent from a repeat under an Idempotency-Key."
    )
    secret_replayed: bool | None = Field(
        default=None, description="`false` in such a repeat, else absent."
    )


class KeyPage(Page):
    """One page of keys."""

    data: list[Key]
