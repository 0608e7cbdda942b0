"""Reading endpoints and their attempts, with the reach of a key as a filter."""

from enum import Enum

from django.db.models import QuerySet

from core.database import fetch_one
from core.ids import is_id
from mailboxes.callers import Caller
from webhooks.errors import WebhookNotFound
from webhooks.models import WebhookAttempt, WebhookEndpoint


def endpoints_in_reach(caller: Caller) -> QuerySet[WebhookEndpoint]:
    """Return the endpoints that a key may know of; everything else is not there.

    A tenant's and an identity's key know those of their tenant alone.
    """
    found = WebhookEndpoint.objects.all()
    if caller.tenant_id is not None:
        found = found.filter(tenant_id=caller.tenant_id)
    return found


class Lock(Enum):
    """How a row is taken for the caller's transaction.

    Endpoints come before their dispatches, for everyone who takes both.
    """

    CHANGE = "change"
    WHOLE = "whole"
    """Nobody adds a row below it meanwhile; for its deletion."""


def endpoint_in_reach(
    webhook_id: str, *, caller: Caller, lock: Lock | None = None
) -> WebhookEndpoint:
    """Return one endpoint, locked if that is asked for.

    Raises WebhookNotFound alike for missing and foreign.
    """
    found = endpoints_in_reach(caller)
    if lock is not None:
        found = found.select_for_update(no_key=lock is Lock.CHANGE)
    endpoint = found.filter(id=webhook_id).first() if is_id(webhook_id, "whk") else None
    if endpoint is None:
        raise WebhookNotFound("No such endpoint.")
    return endpoint


def keep_endpoint(endpoint: WebhookEndpoint) -> None:
    """Let nobody delete an endpoint until the caller's transaction ends.

    It may be changed meanwhile. Raises WebhookNotFound when it is gone already.
    """
    held = fetch_one(
        "SELECT 1 FROM webhook_endpoints WHERE id = %(id)s FOR KEY SHARE",
        {"id": endpoint.id},
    )
    if held is None:
        raise WebhookNotFound("No such endpoint.")


def attempts_at(endpoint: WebhookEndpoint) -> QuerySet[WebhookAttempt]:
    """Return what was attempted at an endpoint."""
    return WebhookAttempt.objects.filter(endpoint=endpoint)
