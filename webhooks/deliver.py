"""One event to one endpoint."""

from datetime import datetime

from webhooks.models import WebhookAttempt, WebhookEndpoint


def try_now(endpoint: WebhookEndpoint, *, now: datetime) -> WebhookAttempt:
    """Send a ``webhook.test`` to an endpoint, once, and return how it ended.

    Takes up to 15 s, and is made outside of any transaction; a disabled endpoint is
    called as well. The attempt is stored; nothing of the endpoint changes.
    """
    raise NotImplementedError
