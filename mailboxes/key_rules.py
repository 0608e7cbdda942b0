"""Which key may touch which: never a wider one (security, section 2). Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from core.errors import FieldError, InvalidRequest, KeyScopeExceeded
from mailboxes.callers import Caller
from mailboxes.scopes import IMPLICIT, Scope, allowed_at
from mailboxes.statuses import KeyLevel

WIDTH: Final[Mapping[KeyLevel, int]] = {
    KeyLevel.IDENTITY: 1,
    KeyLevel.TENANT: 2,
    KeyLevel.PLATFORM: 3,
}


@dataclass(frozen=True, slots=True)
class Extent:
    """How far a key reaches, whether it is stored or asked for."""

    level: KeyLevel
    tenant_id: str | None
    identity_id: str | None
    permissions: frozenset[str]


def check_within(extent: Extent, *, caller: Caller) -> None:
    """Raise KeyScopeExceeded unless the caller reaches as far as the key.

    What every key of the level may do anyway is not asked of the caller.
    """
    beyond = extent.permissions - IMPLICIT[extent.level] - caller.scopes
    if (
        beyond
        or WIDTH[extent.level] > WIDTH[caller.level]
        or caller.tenant_id not in (None, extent.tenant_id)
        or caller.identity_id not in (None, extent.identity_id)
    ):
        raise KeyScopeExceeded


def grantable(level: KeyLevel, permissions: Iterable[Scope]) -> list[str]:
    """Return a new key's permissions, sorted.

    Raises InvalidRequest when there is none, or one that the level cannot hold.
    """
    wanted = frozenset(permissions)
    if not wanted:
        raise InvalidRequest.at("permissions", "Name at least one permission.")
    if above := sorted(str(scope) for scope in wanted - allowed_at(level)):
        message = f"A key of level {level} cannot hold {', '.join(above)}."
        raise InvalidRequest(
            message,
            errors=[FieldError("permissions", message)],
            details={"reason": "permission_not_allowed_for_level"},
        )
    return sorted(str(scope) for scope in wanted)
