"""Who may call what: one table, and nothing that it does not name.

Keys are routes' names and verbs; a route without an entry is denied, and fails a test.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from core.errors import PermissionDenied, ScopeDenied
from mailboxes.callers import Caller, caller_of
from mailboxes.scopes import LEVELS, Scope
from mailboxes.statuses import KeyLevel

if TYPE_CHECKING:  # settings name this module, so the framework imports it first
    from rest_framework.views import APIView


@dataclass(frozen=True, slots=True)
class Rule:
    """What a call needs: all of these scopes (none: any key), at one of the levels.

    A key of an ``own`` level needs no scope, for what is its own.
    """

    scopes: frozenset[Scope]
    levels: frozenset[KeyLevel]
    own: frozenset[KeyLevel] = frozenset()


def _needs(scope: Scope, *levels: KeyLevel, own: Iterable[KeyLevel] = ()) -> Rule:
    return Rule(frozenset({scope}), frozenset(levels) or LEVELS[scope], frozenset(own))


def _needs_all(*scopes: Scope) -> Rule:
    held_at = (LEVELS[scope] for scope in scopes)
    return Rule(frozenset(scopes), frozenset(KeyLevel).intersection(*held_at))


ANY_KEY: Final = Rule(frozenset(), frozenset(KeyLevel))
_PT: Final = (KeyLevel.PLATFORM, KeyLevel.TENANT)

ACCESS: Final[Mapping[tuple[str, str], Rule]] = {
    ("me", "GET"): ANY_KEY,
    ("tenants", "POST"): _needs(Scope.TENANTS_MANAGE),
    ("tenants", "GET"): _needs(Scope.TENANTS_MANAGE),
    ("tenant", "GET"): _needs(Scope.TENANTS_MANAGE, own=[KeyLevel.TENANT]),
    ("tenant", "PATCH"): _needs(Scope.TENANTS_MANAGE),
    ("tenant-policy", "GET"): _needs(Scope.POLICY_WRITE),
    ("tenant-policy", "PATCH"): _needs(Scope.POLICY_WRITE),
    ("tenant-billing", "GET"): _needs(Scope.TENANTS_MANAGE),
    ("tenant-billing", "PATCH"): _needs(Scope.TENANTS_MANAGE),
    ("usage", "GET"): _needs(Scope.USAGE_READ),
    ("usage-daily", "GET"): _needs(Scope.USAGE_READ, *_PT),
    ("audit-events", "GET"): _needs(Scope.AUDIT_READ),
    ("events", "GET"): _needs(Scope.WEBHOOKS_READ),
    ("keys", "POST"): _needs(Scope.KEYS_MANAGE),
    ("keys", "GET"): _needs(Scope.KEYS_MANAGE),
    ("key", "GET"): _needs(Scope.KEYS_MANAGE),
    ("key", "DELETE"): _needs(Scope.KEYS_MANAGE),
    ("key-rotate", "POST"): _needs(Scope.KEYS_MANAGE),
    ("messages", "POST"): _needs(Scope.MESSAGES_SEND),
    ("messages", "GET"): _needs(Scope.MESSAGES_READ),
    ("threads", "GET"): _needs(Scope.MESSAGES_READ),
    ("thread", "GET"): _needs(Scope.MESSAGES_READ),
    ("thread", "PATCH"): _needs(Scope.MESSAGES_WRITE),
    ("message", "GET"): _needs(Scope.MESSAGES_READ),
    ("message", "PATCH"): _needs(Scope.MESSAGES_WRITE),
    ("message-raw", "GET"): _needs(Scope.MESSAGES_READ),
    ("message-resolve", "POST"): _needs(Scope.MESSAGES_WRITE),
    ("messages-resolve", "POST"): _needs(Scope.MESSAGES_WRITE, *_PT),
    ("message-attempts", "GET"): _needs(Scope.MESSAGES_READ),
    ("message-reply", "POST"): _needs(Scope.MESSAGES_SEND),
    ("message-reply-all", "POST"): _needs(Scope.MESSAGES_SEND),
    ("message-forward", "POST"): _needs(Scope.MESSAGES_SEND),
    ("message-cancel", "POST"): _needs(Scope.MESSAGES_SEND),
    ("message-attachment", "GET"): _needs(Scope.ATTACHMENTS_READ),
    ("tenant-identities", "POST"): _needs(Scope.IDENTITIES_WRITE, *_PT),
    ("tenant-identities", "GET"): _needs(Scope.IDENTITIES_READ),
    ("identities", "GET"): _needs(Scope.IDENTITIES_READ),
    ("identity-lookup", "GET"): _needs(Scope.IDENTITIES_READ),
    ("identity", "GET"): _needs(Scope.IDENTITIES_READ),
    ("identity", "PATCH"): _needs(Scope.IDENTITIES_WRITE),
    ("identity", "DELETE"): _needs_all(Scope.IDENTITIES_WRITE, Scope.ERASURE_MANAGE),
    ("addresses", "GET"): _needs(Scope.IDENTITIES_READ),
    ("addresses", "POST"): _needs(Scope.IDENTITIES_WRITE),
    ("address", "DELETE"): _needs(Scope.IDENTITIES_WRITE),
    ("address-promote", "POST"): _needs(Scope.IDENTITIES_WRITE),
    ("address-retire", "POST"): _needs(Scope.IDENTITIES_WRITE),
    ("suppressions", "POST"): _needs(Scope.SUPPRESSIONS_MANAGE),
    ("suppressions", "GET"): _needs(Scope.SUPPRESSIONS_MANAGE),
    ("suppression", "DELETE"): _needs(Scope.SUPPRESSIONS_MANAGE),
    ("list", "GET"): _needs(Scope.SUPPRESSIONS_MANAGE),
    ("list-entry", "GET"): _needs(Scope.SUPPRESSIONS_MANAGE),
    ("list-entry", "PUT"): _needs(Scope.SUPPRESSIONS_MANAGE),
    ("list-entry", "DELETE"): _needs(Scope.SUPPRESSIONS_MANAGE),
    ("tenant-webhooks", "POST"): _needs(Scope.WEBHOOKS_MANAGE),
    ("tenant-webhooks", "GET"): _needs(Scope.WEBHOOKS_READ),
    ("webhooks", "POST"): _needs(Scope.WEBHOOKS_MANAGE, KeyLevel.PLATFORM),
    ("webhooks", "GET"): _needs(Scope.WEBHOOKS_READ),
    ("webhook", "GET"): _needs(Scope.WEBHOOKS_READ),
    ("webhook", "PATCH"): _needs(Scope.WEBHOOKS_MANAGE),
    ("webhook", "DELETE"): _needs(Scope.WEBHOOKS_MANAGE),
    ("webhook-rotate-secret", "POST"): _needs(Scope.WEBHOOKS_MANAGE),
    ("webhook-test", "POST"): _needs(Scope.WEBHOOKS_MANAGE),
    ("webhook-replay", "POST"): _needs(Scope.WEBHOOKS_MANAGE),
    ("webhook-deliveries", "GET"): _needs(Scope.WEBHOOKS_READ),
    ("signing-key-rotate", "POST"): _needs(Scope.PLATFORM_OPS),
}
"""Every call of ``/v1`` by its route's name and verb."""

PUBLIC: Final = frozenset(
    {"health", "openapi", "reference", "link", "plans", "ses-hook"}
)
"""Routes that need no key."""


class AccessTable(BasePermission):
    """Lets a caller through when the table says so."""

    def has_permission(self, request: Request, view: "APIView") -> bool:
        """Return True, or raise what the caller lacks: the scope, then the level."""
        verb = "GET" if request.method == "HEAD" else str(request.method)
        if verb not in view.allowed_methods:
            return True  # answered 405
        match = request.resolver_match
        rule = ACCESS.get((match.view_name if match else "", verb))
        check(caller_of(request), rule)
        return True


def check(caller: Caller, rule: Rule | None) -> None:
    """Raise PermissionDenied or ScopeDenied unless the rule lets the caller through."""
    if rule is None:
        raise PermissionDenied("No key may call this.", details={"required": []})
    if caller.level in rule.own:
        return
    if lacking := rule.scopes - caller.scopes:
        names = ", ".join(sorted(map(str, lacking)))
        required = sorted(map(str, rule.scopes))
        raise PermissionDenied(
            f"The key lacks the scope {names}.", details={"required": required}
        )
    if caller.level not in rule.levels:
        raise ScopeDenied("The route is above the level of this key.")
