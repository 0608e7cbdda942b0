"""What an API key may do, and which level of key may hold it (REST contract 1.1)."""

from collections.abc import Iterable, Mapping
from typing import Final

from django.db.models import TextChoices

from mailboxes.statuses import KeyLevel


class Scope(TextChoices):
    """One permission; there are no wildcards and no implicit full set."""

    TENANTS_MANAGE = "tenants:manage"
    POLICY_WRITE = "policy:write"
    IDENTITIES_READ = "identities:read"
    IDENTITIES_WRITE = "identities:write"
    DOMAINS_READ = "domains:read"
    DOMAINS_WRITE = "domains:write"
    MESSAGES_READ = "messages:read"
    MESSAGES_SEND = "messages:send"
    MESSAGES_WRITE = "messages:write"
    ATTACHMENTS_READ = "attachments:read"
    SUPPRESSIONS_MANAGE = "suppressions:manage"
    WEBHOOKS_READ = "webhooks:read"
    WEBHOOKS_MANAGE = "webhooks:manage"
    KEYS_MANAGE = "keys:manage"
    USAGE_READ = "usage:read"
    AUDIT_READ = "audit:read"
    ERASURE_MANAGE = "erasure:manage"
    PLATFORM_OPS = "platform:ops"


P, T, I = KeyLevel.PLATFORM, KeyLevel.TENANT, KeyLevel.IDENTITY  # noqa: E741
_ALL, _PT, _P = frozenset({P, T, I}), frozenset({P, T}), frozenset({P})

LEVELS: Final[Mapping[Scope, frozenset[KeyLevel]]] = {
    Scope.TENANTS_MANAGE: _P,
    Scope.POLICY_WRITE: _PT,
    Scope.IDENTITIES_READ: _ALL,
    Scope.IDENTITIES_WRITE: _ALL,
    Scope.DOMAINS_READ: _ALL,
    Scope.DOMAINS_WRITE: _PT,
    Scope.MESSAGES_READ: _ALL,
    Scope.MESSAGES_SEND: _ALL,
    Scope.MESSAGES_WRITE: _ALL,
    Scope.ATTACHMENTS_READ: _ALL,
    Scope.SUPPRESSIONS_MANAGE: _PT,
    Scope.WEBHOOKS_READ: _ALL,
    Scope.WEBHOOKS_MANAGE: _PT,
    Scope.KEYS_MANAGE: _ALL,
    Scope.USAGE_READ: _ALL,
    Scope.AUDIT_READ: _PT,
    Scope.ERASURE_MANAGE: _ALL,
    Scope.PLATFORM_OPS: _P,
}
"""The levels of key that may hold each scope."""

IMPLIES: Final[Mapping[Scope, Scope]] = {Scope.WEBHOOKS_MANAGE: Scope.WEBHOOKS_READ}
IMPLICIT: Final[Mapping[KeyLevel, frozenset[Scope]]] = {
    P: frozenset(),
    T: frozenset({Scope.USAGE_READ}),
    I: frozenset({Scope.USAGE_READ}),
}
_BY_NAME: Final = {str(scope): scope for scope in Scope}
_ALLOWED: Final = {
    level: frozenset(scope for scope, levels in LEVELS.items() if level in levels)
    for level in KeyLevel
}


def allowed_at(level: KeyLevel) -> frozenset[Scope]:
    """Return every scope that a key of this level may hold."""
    return _ALLOWED[level]


def effective(level: KeyLevel, permissions: Iterable[str]) -> frozenset[Scope]:
    """Return what a key may do: its own list, what that implies, and what is implicit.

    A permission that this version does not know grants nothing.
    """
    held = {_BY_NAME[name] for name in permissions if name in _BY_NAME}
    implied = {IMPLIES[scope] for scope in held if scope in IMPLIES}
    return (frozenset(held | implied) | IMPLICIT[level]) & _ALLOWED[level]
