"""Who calls: the Bearer key, verified as security section 2 says."""

import contextvars
from typing import Any

import structlog
from django.conf import settings
from django.core.signals import request_finished
from django.db import Error
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request

from core.database import execute
from core.errors import KeyExpired, KeyRevoked, Unauthenticated
from mailboxes import keys
from mailboxes.callers import Caller
from mailboxes.selectors import StoredKey, key_by_lookup
from mailboxes.statuses import TenantStatus
from pylota.api.buckets import count_failure
from pylota.api.request_id import LIMIT

KNOWN_TENANT_STATUSES = (None, TenantStatus.ACTIVE, TenantStatus.SUSPENDED)

_used: contextvars.ContextVar[str | None] = contextvars.ContextVar("used", default=None)


class KeyAuthentication(BaseAuthentication):
    """Recognises a key, or answers 401 alike for every cause."""

    def authenticate(self, request: Request) -> tuple[Caller, Caller]:
        """Return the caller; raises Unauthenticated, KeyRevoked or KeyExpired."""
        try:
            key = recognise(request.META.get("HTTP_AUTHORIZATION", ""))
        except (Unauthenticated, KeyRevoked, KeyExpired):
            count_failure(request.META.get("REMOTE_ADDR", ""))
            raise
        _used.set(key.key_id if key.is_use_due else None)
        request.META[LIMIT] = settings.PM_RATE_PER_KEY  # told even when it is refused
        caller = key.caller()
        structlog.contextvars.bind_contextvars(
            key_id=caller.key_id,
            tenant_id=caller.tenant_id,
            identity_id=caller.identity_id,
        )
        return caller, caller

    def authenticate_header(self, request: Request) -> str:
        """Name the scheme that a 401 asks for."""
        return "Bearer"


def recognise(header: str) -> StoredKey:
    """Return the key whose secret an ``Authorization`` header holds.

    One indexed read, uncached, so that a revocation counts at once. That a key was
    revoked, or has ended, is said only to whoever holds its secret.
    """
    scheme, _, token = header.partition(" ")
    parsed = keys.parse(token.strip()) if scheme.lower() == "bearer" else None
    if parsed is None:
        raise Unauthenticated("No usable API key.")
    stored = key_by_lookup(parsed.lookup)
    _prove(parsed, stored)
    _check_alive(stored)
    return stored


def _prove(parsed: keys.ParsedKey, stored: StoredKey) -> None:
    proved = keys.matches(
        settings.PM_KEY_PEPPER,
        parsed.text,
        current=stored.hash,
        previous=stored.previous_hash,
    )
    if not proved or not stored.exists or stored.mode != parsed.mode:
        raise Unauthenticated("No usable API key.")


def _check_alive(stored: StoredKey) -> None:
    is_known = stored.tenant_status in KNOWN_TENANT_STATUSES
    if stored.is_revoked or not is_known:
        raise KeyRevoked("This key has been revoked.")
    if stored.has_expired:
        raise KeyExpired("This key has expired.")


def _write_last_use(**_: Any) -> None:
    """Write ``last_used_at`` once the response has left; at most once a minute."""
    key_id = _used.get()
    if key_id is None:
        return
    _used.set(None)
    try:
        execute(
            "UPDATE api_keys SET last_used_at = clock_timestamp() WHERE id = %(id)s"
            " AND (last_used_at IS NULL"
            "      OR last_used_at < clock_timestamp() - interval '1 minute')",
            {"id": key_id},
        )
    except Error as error:  # nobody waits for this; the next request tries again
        structlog.get_logger().warning("key.last_use_lost", exc_info=error)


request_finished.connect(_write_last_use, dispatch_uid="pylota.last_use")
