"""Identities and addresses as the API and events show them (REST contract 2.2, 2.3)."""

from datetime import datetime
from typing import Any, Final

from mailboxes.models import Address, Identity
from mailboxes.services import render_instant
from mailboxes.statuses import AddressRole

DEFAULT_SEND_POLICY: Final = {
    "daily_cap": None,
    "auto_reply": "allowed",
    "require_known_recipient": False,
}
"""What counts for an identity that says nothing (mailboxes, section 2.8)."""


def identity_json(identity: Identity) -> dict[str, Any]:
    """Return an identity with its addresses of every state, oldest first."""
    addresses = sorted(identity.addresses.all(), key=lambda a: (a.created_at, a.id))
    return {
        "id": identity.id,
        "tenant_id": identity.tenant_id,
        "username": identity.username,
        "display_name": identity.display_name,
        "purpose": identity.purpose,
        "status": str(identity.status),
        "pause_reason": identity.pause_reason and str(identity.pause_reason),
        "primary_address": next(
            (a.address for a in addresses if a.role == AddressRole.PRIMARY), None
        ),
        "addresses": [address_json(address) for address in addresses],
        "owner": _pair(name=identity.owner_name, email=identity.owner_email),
        "signature": _pair(text=identity.signature_text, html=identity.signature_html),
        "send_policy": {**DEFAULT_SEND_POLICY, **identity.send_policy},
        "metadata": identity.metadata,
        "client_id": identity.client_id,
        "created_at": render_instant(identity.created_at),
        "updated_at": render_instant(identity.updated_at),
    }


def address_json(address: Address) -> dict[str, Any]:
    """Return one address."""
    return {
        "id": address.id,
        "identity_id": address.identity_id,
        "domain_id": address.domain_id,
        "address": address.address,
        "local_part": address.local_part,
        "role": str(address.role),
        "status": str(address.status),
        "retire_at": _instant(address.retire_at),
        "retired_at": _instant(address.retired_at),
        "created_at": render_instant(address.created_at),
        "forwarding": address.forwarding,
        "forwarding_checked_at": _instant(address.forwarding_checked_at),
    }


def _pair(**values: str | None) -> dict[str, str | None] | None:
    return values if any(value is not None for value in values.values()) else None


def _instant(instant: datetime | None) -> str | None:
    return render_instant(instant) if instant else None
