"""Events and endpoints as they are stored, for the tests of what is told to clients."""

from datetime import datetime
from typing import Any

from django.db import transaction

from core.clock import database_now
from core.ids import new_id
from mailboxes.models import Event, Identity, Tenant
from mailboxes.services import NewEvent, lock_mailbox, publish, publish_of_tenant
from webhooks.models import WebhookEndpoint

MESSAGE = "msg_01K00000000000000000000000"
AT = "2026-11-02T09:15:20.114Z"
DATA: dict[str, dict[str, Any]] = {
    "message.sent": {
        "message": {
            "id": MESSAGE,
            "thread_id": "thr_01K00000000000000000000000",
            "direction": "outbound",
            "status": "submitted",
            "from": {"address": "desk@acme.example", "name": None},
            "to": [{"address": "jo@example.net", "name": "Jo"}],
            "cc": [],
            "delivered_to": None,
            "is_primary_recipient": None,
            "subject": "Your booking",
            "sent_at": AT,
            "received_at": AT,
            "kind": "transactional",
            "labels": [],
            "in_reply_to": None,
            "flags": [],
        },
        "provider": "smtp",
        "provider_message_id": None,
        "sent_via_fallback": False,
    },
    "message.canceled": {"message_id": MESSAGE},
    "message.failed": {"message_id": MESSAGE, "reason": "quota_exhausted"},
    "suppression.created": {
        "address_hint": "j***@example.net",
        "reason": "hard_bounce",
        "source_message_id": MESSAGE,
    },
    "quota.warning": {"metric": "sends", "used": 4, "limit": 5, "scope": "identity"},
    "tenant.policy_updated": {
        "fields": ["max_recipients"],
        "by": "platform",
        "actor_key_id": None,
        "policy_version": 2,
    },
    "webhook.disabled": {
        "webhook_id": "whk_01K00000000000000000000000",
        "reason": "gone",
    },
}
"""Data of a few types, as it is documented."""


def happen(
    identity: Identity,
    event_type: str = "message.canceled",
    *,
    at: datetime | None = None,
    **data: Any,
) -> str:
    """Let something happen to an identity, and return the event's id."""
    event_id = new_id("evt")
    with transaction.atomic():
        lock_mailbox(identity.id)
        publish(
            [NewEvent(event_type, {**DATA[event_type], **data}, id=event_id)],
            tenant_id=identity.tenant_id,
            identity_id=identity.id,
            now=at or database_now(),
        )
    return event_id


def happen_to_tenant(tenant: Tenant, event_type: str = "tenant.policy_updated") -> str:
    """Let something happen to a tenant, and return the event's id."""
    event_id = new_id("evt")
    with transaction.atomic():
        publish_of_tenant(
            NewEvent(event_type, DATA[event_type], id=event_id),
            tenant_id=tenant.id,
            now=database_now(),
        )
    return event_id


def listening(tenant: Tenant | None, *events: str, **given: Any) -> WebhookEndpoint:
    """Return a new endpoint that asks for these types, or for all of them."""
    return WebhookEndpoint.objects.create(
        id=new_id("whk"),
        tenant=tenant,
        url="https://hooks.example.com/pylota",
        events=list(events) or ["*"],
        secret_enc="sealed",
        **given,
    )


def places() -> dict[str, int | None]:
    """Return the place of each event."""
    return dict(Event.objects.values_list("id", "position"))
