"""The shapes of tenants, identities, addresses and keys, for the API's description."""

from typing import Any, ClassVar

from core.schemas import Shape
from mailboxes.statuses import KeyPurpose


class RotatedSigningKey(Shape):
    """Which key signs from now on; the key itself is never shown."""

    example: ClassVar[dict[str, Any]] = {"purpose": "link", "kid": "b"}

    purpose: KeyPurpose
    kid: str
