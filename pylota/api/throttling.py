"""Rate limits (security, section 7): of a key, of a tenant, of an identity's sends."""

from typing import TYPE_CHECKING

from django.conf import settings
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from mailboxes.callers import Caller
from pylota.api.buckets import count

if TYPE_CHECKING:  # settings name this module, so the framework imports it first
    from rest_framework.views import APIView


class KeyRate(BaseThrottle):
    """Calls of one key, and of all keys of one tenant."""

    def allow_request(self, request: Request, view: "APIView") -> bool:
        """Return True, or raise RateLimited."""
        caller = request.auth
        if isinstance(caller, Caller):
            count("key", caller.key_id, per_minute=settings.PM_RATE_PER_KEY)
            if caller.tenant_id is not None:
                limit = settings.PM_RATE_PER_TENANT
                count("tenant", caller.tenant_id, per_minute=limit)
        return True


class SendRate(BaseThrottle):
    """Sends of one identity, counted apart for each tenant that asks."""

    def allow_request(self, request: Request, view: "APIView") -> bool:
        """Return True, or raise RateLimited."""
        is_send = getattr(view, "sends", False) and request.method == "POST"
        if is_send and isinstance(request.auth, Caller):
            owner = request.auth.tenant_id or request.auth.key_id
            identity = str(view.kwargs.get("identity_id", ""))
            count("send", owner, identity, per_minute=settings.PM_RATE_SENDS)
        return True
