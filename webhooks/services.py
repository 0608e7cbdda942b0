"""Endpoints: made, changed, given another secret, turned on, deleted.

Whoever changes one locks its row. Each change leaves an audit row that names fields,
and no URL: one may hold a token.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import transaction

from core.clock import database_now
from core.database import fetch_one
from core.ids import new_id
from core.sealing import SealBroken
from core.sweeps import until_none
from mailboxes.callers import Caller
from mailboxes.services import audit, resolve_alerts
from webhooks.errors import WebhookLimitReached
from webhooks.health import DISABLED, FAILING, OF_ONE, SECRET
from webhooks.models import WebhookEndpoint
from webhooks.outbox import hold_outbox
from webhooks.secrets import open_secrets, seal_secret
from webhooks.selectors import Lock, endpoint_in_reach
from webhooks.signing import new_secret
from webhooks.statuses import DisabledReason
from webhooks.wishes import NewEndpoint, changes_of, switch, turned_on

MOST_ENDPOINTS: Final = 20
"""Of one tenant, and of the platform itself (REST contract, section 7)."""
BATCH: Final = 1000
_SOME_DISPATCHES: Final = (
    "DELETE FROM webhook_dispatches WHERE id IN (SELECT id FROM webhook_dispatches"
    " WHERE endpoint_id = %(endpoint)s ORDER BY id LIMIT %(batch)s"
    " FOR UPDATE SKIP LOCKED)"  # what others hold goes with the endpoint
)
_SOME_ATTEMPTS: Final = (
    "DELETE FROM webhook_attempts WHERE id IN (SELECT id FROM webhook_attempts"
    " WHERE endpoint_id = %(endpoint)s ORDER BY created_at, id LIMIT %(batch)s)"
)


@dataclass(frozen=True, slots=True)
class NewSecret:
    """An endpoint and the secret it was given: the only time that is seen."""

    endpoint: WebhookEndpoint
    secret: str = field(repr=False)


def create_endpoint(
    new: NewEndpoint, *, tenant_id: str | None, caller: Caller
) -> NewSecret:
    """Make an endpoint of a tenant, or the platform's, from what was checked.

    Joins the caller's transaction. Raises WebhookLimitReached.
    """
    _take_place(tenant_id)
    endpoint_id, secret, now = new_id("whk"), new_secret(), database_now()
    endpoint = WebhookEndpoint.objects.create(
        id=endpoint_id,
        tenant_id=tenant_id,
        url=new.url,
        events=list(new.events),
        identity_ids=None if new.identity_ids is None else list(new.identity_ids),
        description=new.description or "",
        secret_enc=seal_secret(endpoint_id, secret),
        created_at=now,
        updated_at=now,
    )
    _audit("webhook.create", endpoint, caller, events=endpoint.events)
    return NewSecret(endpoint, secret)


@transaction.atomic(durable=True)
def update_endpoint(
    webhook_id: str, given: Mapping[str, Any], *, caller: Caller
) -> WebhookEndpoint:
    """Write the fields that are given; what changes nothing writes nothing.

    The URL, if it is another one, has been checked by then. Raises WebhookNotFound,
    and what ``changes_of`` raises.
    """
    endpoint = endpoint_in_reach(webhook_id, caller=caller, lock=Lock.CHANGE)
    if columns := changes_of(endpoint, given, caller=caller):
        fields = sorted(given.keys() & {*columns, "enabled"})
        _change(endpoint, columns, fields, caller)
    return endpoint


@transaction.atomic(durable=True)
def pass_test(webhook_id: str, *, url: str, caller: Caller) -> bool:
    """Turn on an endpoint whose new URL has answered a test; tell whether it did.

    Only while ``url`` is still the one that it has: another one is not proved. Raises
    WebhookNotFound.
    """
    endpoint = endpoint_in_reach(webhook_id, caller=caller, lock=Lock.CHANGE)
    waits = endpoint.disabled_reason == DisabledReason.URL_CHANGED
    if not waits or endpoint.url != url:
        return False
    _change(endpoint, turned_on(endpoint), ["enabled"], caller)
    return True


def rotate_secret(webhook_id: str, *, overlap_hours: int, caller: Caller) -> NewSecret:
    """Give an endpoint a new secret; the one before signs for so many hours more.

    At most two sign; with no overlap, one. Joins the caller's transaction. Raises
    WebhookNotFound.
    """
    endpoint = endpoint_in_reach(webhook_id, caller=caller, lock=Lock.CHANGE)
    secret, now = new_secret(), database_now()
    before = _as_previous(endpoint, now=now) if overlap_hours else None
    columns = {
        "prev_secret_enc": before,
        "prev_secret_until": now + timedelta(hours=overlap_hours) if before else None,
        "secret_enc": seal_secret(endpoint.id, secret),
    }
    _write(endpoint, columns, now=now)
    resolve_alerts(SECRET, subject=endpoint.id)
    _audit("webhook.rotate_secret", endpoint, caller, overlap_hours=overlap_hours)
    return NewSecret(endpoint, secret)


def delete_endpoint(webhook_id: str, *, caller: Caller) -> None:
    """Delete an endpoint with all that is on its way to it, and its attempts.

    It is off before anything goes, so that nothing new comes; a call that breaks off
    is finished by the next. Raises WebhookNotFound.
    """
    _turn_off(webhook_id, caller=caller)
    for statement in (_SOME_DISPATCHES, _SOME_ATTEMPTS):
        until_none(statement, {"endpoint": webhook_id, "batch": BATCH})
    _delete(webhook_id, caller=caller)


@transaction.atomic(durable=True)
def _turn_off(webhook_id: str, *, caller: Caller) -> None:
    endpoint = endpoint_in_reach(webhook_id, caller=caller, lock=Lock.CHANGE)
    if columns := switch(endpoint, enabled=False):
        _write(endpoint, columns, now=database_now())


@transaction.atomic(durable=True)
def _delete(webhook_id: str, *, caller: Caller) -> None:
    """Delete the row, while nobody adds any below it."""
    hold_outbox()
    endpoint = endpoint_in_reach(webhook_id, caller=caller, lock=Lock.WHOLE)
    _audit("webhook.delete", endpoint, caller)
    resolve_alerts(*OF_ONE, subject=endpoint.id)
    endpoint.delete()  # and the few rows that came since


def _take_place(tenant_id: str | None) -> None:
    """Let one transaction at a time add an endpoint where there is room for it."""
    text = f"webhooks\0{tenant_id}"
    number = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], signed=True)
    fetch_one("SELECT pg_advisory_xact_lock(%(number)s)", {"number": number})
    if WebhookEndpoint.objects.filter(tenant_id=tenant_id).count() >= MOST_ENDPOINTS:
        raise WebhookLimitReached(
            f"There are {MOST_ENDPOINTS} endpoints, the most there may be.",
            details={"limit": MOST_ENDPOINTS},
        )


def _as_previous(endpoint: WebhookEndpoint, *, now: datetime) -> str | None:
    """Return the secret sealed for the other column; None if it does not open."""
    ended = endpoint.prev_secret_until or now  # the one before is not asked
    try:
        (current,) = open_secrets(endpoint, now=ended)
        return seal_secret(endpoint.id, current, is_previous=True)
    except SealBroken:
        return None  # it signs nothing any more; a new one is the way out


def _change(
    endpoint: WebhookEndpoint,
    columns: Mapping[str, Any],
    fields: list[str],
    caller: Caller,
) -> None:
    _write(endpoint, columns, now=database_now())
    if "disabled_reason" in columns and endpoint.disabled_reason is None:
        resolve_alerts(DISABLED, FAILING, subject=endpoint.id)
    reason = endpoint.disabled_reason
    _audit("webhook.update", endpoint, caller, fields=fields, disabled_reason=reason)


def _write(
    endpoint: WebhookEndpoint, columns: Mapping[str, Any], *, now: datetime
) -> None:
    """Write columns of a row that is locked, and show them in the one at hand."""
    written = {**columns, "updated_at": now}
    if "disabled_reason" in columns:
        is_on = columns["disabled_reason"] is None
        written["disabled_at"] = None if is_on else now
    WebhookEndpoint.objects.filter(id=endpoint.id).update(**written)
    for name, value in written.items():
        setattr(endpoint, name, value)


def _audit(
    action: str, endpoint: WebhookEndpoint, caller: Caller, **details: Any
) -> None:
    audit(
        action,
        tenant_id=endpoint.tenant_id,
        target_type="webhook",
        target_id=endpoint.id,
        details=details,
        actor_key_id=caller.key_id,
    )
