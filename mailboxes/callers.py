"""Who is calling: what an authenticated key says, and nothing from the request."""

from dataclasses import dataclass
from typing import Any

from mailboxes.scopes import Scope
from mailboxes.statuses import KeyLevel, TenantMode


@dataclass(frozen=True, slots=True)
class Caller:
    """An API key that was recognised, and how far it reaches.

    A person in the admin has no key: its ``key_id`` is empty.
    """

    key_id: str
    name: str
    level: KeyLevel
    mode: TenantMode
    tenant_id: str | None
    identity_id: str | None
    scopes: frozenset[Scope]


def caller_of(request: Any) -> Caller:
    """Return who makes this authenticated request."""
    caller = request.auth
    assert isinstance(caller, Caller)  # noqa: S101  the access table let it through
    return caller
