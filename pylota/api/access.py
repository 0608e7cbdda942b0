"""Who may call what: one table, and nothing that it does not name.

Keys are routes' names and verbs; a route without an entry is denied, and fails a test.
"""

from collections.abc import Mapping
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
    """What a call needs: one scope (None: any key), at one of these levels."""

    scope: Scope | None
    levels: frozenset[KeyLevel]


def _needs(scope: Scope, *levels: KeyLevel) -> Rule:
    return Rule(scope, frozenset(levels) or LEVELS[scope])


ANY_KEY: Final = Rule(None, frozenset(KeyLevel))

ACCESS: Final[Mapping[tuple[str, str], Rule]] = {
    ("me", "GET"): ANY_KEY,
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
    ("message-attempts", "GET"): _needs(Scope.MESSAGES_READ),
    ("message-reply", "POST"): _needs(Scope.MESSAGES_SEND),
    ("message-reply-all", "POST"): _needs(Scope.MESSAGES_SEND),
    ("message-forward", "POST"): _needs(Scope.MESSAGES_SEND),
    ("message-attachment", "GET"): _needs(Scope.ATTACHMENTS_READ),
    ("suppressions", "POST"): _needs(Scope.SUPPRESSIONS_MANAGE),
    ("suppressions", "GET"): _needs(Scope.SUPPRESSIONS_MANAGE),
    ("suppression", "DELETE"): _needs(Scope.SUPPRESSIONS_MANAGE),
    ("list", "GET"): _needs(Scope.SUPPRESSIONS_MANAGE),
    ("list-entry", "GET"): _needs(Scope.SUPPRESSIONS_MANAGE),
    ("list-entry", "PUT"): _needs(Scope.SUPPRESSIONS_MANAGE),
    ("list-entry", "DELETE"): _needs(Scope.SUPPRESSIONS_MANAGE),
    ("signing-key-rotate", "POST"): _needs(Scope.PLATFORM_OPS),
}
"""Every call of ``/v1`` by its route's name and verb."""

PUBLIC: Final = frozenset({"health", "openapi", "reference", "link"})
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
    if rule.scope is not None and rule.scope not in caller.scopes:
        required = [str(rule.scope)]
        raise PermissionDenied(
            f"The key lacks the scope {rule.scope}.", details={"required": required}
        )
    if caller.level not in rule.levels:
        raise ScopeDenied("The route is above the level of this key.")
