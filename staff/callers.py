"""The reach that a person of the staff acts with, where a service asks for a caller."""

from mailboxes.callers import Caller
from mailboxes.scopes import Scope
from mailboxes.statuses import KeyLevel, TenantMode


def platform_caller() -> Caller:
    """Return a caller as wide as the platform; the act's permission has been checked.

    It has no key: audit rows name the person (core/acting.py).
    """
    return Caller(
        key_id="",
        name="staff",
        level=KeyLevel.PLATFORM,
        mode=TenantMode.LIVE,
        tenant_id=None,
        identity_id=None,
        scopes=frozenset(Scope),
    )
