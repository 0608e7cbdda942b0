"""Why an endpoint is not there, or cannot be made."""

from core.errors import PylotaError


class WebhookNotFound(PylotaError):
    """No such endpoint within the reach of the key."""

    code = "webhook_not_found"
    status = 404
    fix = "Check the id, and that the key reaches it."


class WebhookLimitReached(PylotaError):
    """The tenant, or the platform, has as many endpoints as it may have."""

    code = "webhook_limit_reached"
    status = 422
    fix = "Delete an endpoint that nobody uses any more; details.limit is the most."
