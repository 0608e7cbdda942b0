"""Endpoints, and events that are on their way to them."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from core import http_once
from core.clock import database_now
from core.database import execute, fetch_all
from core.ids import new_id
from mailboxes.models import Event, Identity
from mailboxes.services import NewEvent, lock_mailbox, publish
from outbound import dispatch
from tests.support.certificates import authority
from webhooks import deliver
from webhooks.models import WebhookDispatch, WebhookEndpoint
from webhooks.secrets import seal_secret
from webhooks.signing import new_secret


def endpoint_at(url: str, **fields: Any) -> WebhookEndpoint:
    """Return an endpoint; without a tenant it is the platform's."""
    identifier = new_id("whk")
    secret = fields.pop("secret", None) or new_secret()
    return WebhookEndpoint.objects.create(
        id=identifier,
        url=url,
        events=["*"],
        secret_enc=seal_secret(identifier, secret),
        **fields,
    )


def events_of_one(identity: Identity, number: int = 1) -> list[Event]:
    """Return so many events of an identity, as they are published."""
    ids = [new_id("evt") for _ in range(number)]
    told = {"message_id": new_id("msg"), "recipient": "jo@example.net"}
    lock_mailbox(identity.id)
    publish(
        [
            NewEvent("message.delivered", {**told, "smtp_code": None}, id=one)
            for one in ids
        ],
        tenant_id=identity.tenant_id,
        identity_id=identity.id,
        now=database_now(),
    )
    return list(Event.objects.filter(id__in=ids).order_by("id"))


def on_its_way(
    endpoint: WebhookEndpoint, event: Event, **fields: Any
) -> WebhookDispatch:
    """Return an event's due row for an endpoint."""
    return WebhookDispatch.objects.create(
        **{
            "endpoint": endpoint,
            "event": event,
            "event_type": event.type,
            "due_at": database_now(),
            **fields,
        }
    )


def ring(row: WebhookDispatch) -> str:
    """Mark a row as rung, as the dispatcher does; return the id that a task gets."""
    execute(
        "UPDATE webhook_dispatches SET rung_at = clock_timestamp() WHERE id = %(id)s",
        {"id": row.pk},
    )
    return str(row.pk)


def rung_and_delivered(row: WebhookDispatch) -> WebhookDispatch:
    """Ring a row, deliver it, and return it as it is then."""
    deliver.deliver(ring(row))
    row.refresh_from_db()
    return row


def take_all() -> list[str]:
    """Take all that the dispatcher would ring of webhooks now."""
    found: list[str] = []
    while (batch := dispatch.take_due(dispatch.WEBHOOKS)).ids:
        found.extend(batch.ids)
    return found


def rung_by_endpoint() -> dict[str, int]:
    """Count the rows that are rung and unclaimed."""
    rows = fetch_all(
        "SELECT endpoint_id, count(*) FROM webhook_dispatches"
        " WHERE rung_at IS NOT NULL AND due_at IS NOT NULL GROUP BY 1"
    )
    return dict(rows)


@contextmanager
def trusting(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let HTTPS clients of this process trust the authority of the tests."""
    context = ssl.create_default_context(cadata=authority().pem)
    with monkeypatch.context() as patched:
        patched.setattr(http_once, "_verified", lambda: context)
        yield
