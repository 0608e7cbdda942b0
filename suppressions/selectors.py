"""Reading who may not be written to: one statement for all recipients of a message."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from core.database import fetch_all
from core.hashing import address_hash
from mailboxes.thread_tokens import split_subaddress
from suppressions.filters import FilterFacts, list_entries
from suppressions.statuses import SuppressionReason

_SUPPRESSED: Final = """
SELECT 'suppressed', address_hash, reason
  FROM suppressions
 WHERE tenant_id = %(tenant)s AND address_hash = ANY(%(hashes)s::text[])
   AND (expires_at IS NULL OR expires_at > %(now)s)
"""
_FACTS: Final = f"""
{_SUPPRESSED}
UNION ALL
SELECT kind, entry, NULL
  FROM sender_lists
 WHERE tenant_id = %(tenant)s AND direction = 'send'
   AND kind IN ('allow', 'block') AND entry = ANY(%(entries)s::text[])
UNION ALL
SELECT 'known', address, NULL
  FROM contacts
 WHERE identity_id = %(identity)s AND address = ANY(%(addresses)s::text[])
   AND (inbound_count > 0 OR outbound_count > 0)
UNION ALL
SELECT 'inside', address, NULL
  FROM addresses
 WHERE %(with_directory)s AND address = ANY(%(bases)s::text[])
   AND status IN ('active', 'retiring')
"""  # noqa: S608  constants only


def filter_facts(
    addresses: Sequence[str],
    *,
    tenant_id: str,
    identity_id: str,
    now: datetime,
    with_directory: bool = False,
) -> FilterFacts:
    """Return what the rows say of normalised recipients, in one statement.

    Suppressions by hash, list entries by address and ``@domain``, contacts of the
    identity; ``with_directory``, who is reached on this deployment, whose tag (a thread
    token is one) is no part of an address. Joins the caller's transaction, if any.
    """
    by_hash = {address_hash(address): address for address in addresses}
    base_of = {address: split_subaddress(address)[0] for address in addresses}
    entries = {entry for address in addresses for entry in list_entries(address)}
    rows = fetch_all(
        _FACTS,
        {
            "tenant": tenant_id,
            "identity": identity_id,
            "hashes": sorted(by_hash),
            "entries": sorted(entries),
            "addresses": sorted(by_hash.values()),
            "now": now,
            "with_directory": with_directory,
            "bases": sorted(set(base_of.values())),
        },
    )
    found = {value for kind, value, _ in rows if kind == "inside"}
    return FilterFacts(
        suppressed={
            by_hash[value]: SuppressionReason(reason)
            for kind, value, reason in rows
            if kind == "suppressed"
        },
        blocked=frozenset(value for kind, value, _ in rows if kind == "block"),
        allowed=frozenset(value for kind, value, _ in rows if kind == "allow"),
        known=frozenset(value for kind, value, _ in rows if kind == "known"),
        inside=frozenset(a for a, base in base_of.items() if base in found),
    )
