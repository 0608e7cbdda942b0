"""The secrets of endpoints, sealed on their rows (security, section 3)."""

from datetime import datetime
from typing import Final

from core.sealing import Place, sealer
from webhooks.models import WebhookEndpoint

CURRENT: Final = "secret_enc"
PREVIOUS: Final = "prev_secret_enc"


def seal_secret(endpoint_id: str, secret: str, *, is_previous: bool = False) -> str:
    """Return the sealed form of a secret for the column of the current one.

    ``is_previous`` seals for the other column: a value does not open elsewhere, so a
    rotation opens the old secret and seals it again.
    """
    return sealer().seal(secret.encode(), place=_place(endpoint_id, is_previous))


def open_secrets(endpoint: WebhookEndpoint, *, now: datetime) -> list[str]:
    """Return the secrets that sign at this instant, the newest first.

    The previous one signs too until its time has ended. Raises SealBroken if one does
    not open.
    """
    found = [_open(endpoint.id, endpoint.secret_enc, is_previous=False)]
    until = endpoint.prev_secret_until
    if endpoint.prev_secret_enc is not None and until is not None and now < until:
        found.append(_open(endpoint.id, endpoint.prev_secret_enc, is_previous=True))
    return found


def _open(endpoint_id: str, sealed: str, *, is_previous: bool) -> str:
    return sealer().open(sealed, place=_place(endpoint_id, is_previous)).decode()


def _place(endpoint_id: str, is_previous: bool) -> Place:
    column = PREVIOUS if is_previous else CURRENT
    return Place("webhook_endpoints", column, endpoint_id)
