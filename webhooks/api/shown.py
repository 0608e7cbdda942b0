"""Endpoints and attempts as the API shows them (REST contract, section 2.10)."""

from datetime import datetime
from typing import Any

from mailboxes.services import render_instant
from webhooks.models import WebhookAttempt, WebhookEndpoint
from webhooks.services import NewSecret


def webhook_json(endpoint: WebhookEndpoint) -> dict[str, Any]:
    """Return an endpoint, without its secret."""
    return {
        "id": endpoint.id,
        "scope": "platform" if endpoint.tenant_id is None else "tenant",
        "tenant_id": endpoint.tenant_id,
        "url": endpoint.url,
        "events": endpoint.events,
        "identity_ids": endpoint.identity_ids,
        "description": endpoint.description or None,
        "enabled": endpoint.disabled_reason is None,
        "disabled_reason": endpoint.disabled_reason,
        "created_at": render_instant(endpoint.created_at),
        "updated_at": render_instant(endpoint.updated_at),
    }


def with_secret(made: NewSecret) -> dict[str, Any]:
    """Return an endpoint with the secret that it was just given."""
    return {**webhook_json(made.endpoint), "secret": made.secret}


def attempt_json(attempt: WebhookAttempt) -> dict[str, Any]:
    """Return one attempt."""
    return {
        "id": attempt.id,
        "webhook_id": attempt.endpoint_id,
        "event_id": attempt.event_id,
        "event_type": attempt.event_type,
        "attempt": attempt.attempt,
        "status": attempt.status,
        "http_status": attempt.http_status,
        "error": attempt.error,
        "duration_ms": attempt.duration_ms,
        "next_attempt_at": _shown(attempt.next_attempt_at),
        "created_at": render_instant(attempt.created_at),
    }


def _shown(at: datetime | None) -> str | None:
    return None if at is None else render_instant(at)
