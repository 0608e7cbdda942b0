"""Reading API keys, as far as the calling key reaches."""

from django.db.models import Q, QuerySet

from core.errors import KeyNotFound
from core.ids import is_id
from mailboxes.callers import Caller
from mailboxes.key_rules import Extent, check_within
from mailboxes.models import ApiKey
from mailboxes.scopes import IMPLICIT
from mailboxes.statuses import KeyLevel


def keys_in_reach(caller: Caller) -> QuerySet[ApiKey]:
    """Return the keys that a key may know of; everything else is not there."""
    found = ApiKey.objects.all()
    if caller.tenant_id is not None:
        found = found.filter(tenant_id=caller.tenant_id)
    if caller.identity_id is not None:
        found = found.filter(identity_id=caller.identity_id)
    return found


def keys_within(caller: Caller) -> QuerySet[ApiKey]:
    """Return the keys in reach that are no wider than the calling one."""
    narrow = Q(pk__in=[])
    for level in KeyLevel:
        held = sorted(caller.scopes | IMPLICIT[level])
        narrow |= Q(level=level, permissions__contained_by=held)
    return keys_in_reach(caller).filter(narrow)


def key_in_reach(key_id: str, *, caller: Caller, lock: bool = False) -> ApiKey:
    """Return one key; ``lock`` takes its row for the caller's transaction.

    Raises KeyNotFound alike for missing and foreign, KeyScopeExceeded for a wider one.
    """
    found = keys_in_reach(caller)
    if lock:
        found = found.select_for_update(no_key=True)
    key = found.filter(id=key_id).first() if is_id(key_id, "key") else None
    if key is None:
        raise KeyNotFound("No such key.")
    check_within(extent_of(key), caller=caller)
    return key


def extent_of(key: ApiKey) -> Extent:
    """Return how far a stored key reaches."""
    return Extent(
        KeyLevel(key.level),
        key.tenant_id,
        key.identity_id,
        frozenset(key.permissions),
    )
