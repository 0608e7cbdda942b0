"""The shapes of tenants, identities, addresses and keys, for the API's description."""

from pydantic import BaseModel

from mailboxes.statuses import KeyPurpose


class RotatedSigningKey(BaseModel):
    """Which key signs from now on; the key itself is never shown."""

    purpose: KeyPurpose
    kid: str
