"""The signature that receivers check: Standard Webhooks, by its own library; pure."""

import base64
import secrets
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from standardwebhooks import Webhook

PREFIX: Final = "whsec_"
SECRET_BYTES: Final = 32


def new_secret() -> str:
    """Return a fresh secret: ``whsec_`` and 32 random bytes in base64."""
    return PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def signed_headers(
    event_id: str, body: bytes, *, keys: Sequence[str], at: datetime
) -> dict[str, str]:
    """Return the three headers of one attempt (REST contract, section 6).

    ``keys`` are the secrets that count, the newest first; each gives a signature. The
    instant is the attempt's, the id the event's whatever attempt this is.
    """
    text = body.decode()
    return {
        "webhook-id": event_id,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": " ".join(
            Webhook(key).sign(event_id, at, text) for key in keys
        ),
    }
