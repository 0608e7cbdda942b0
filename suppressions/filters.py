"""Recipients that are set aside before anything is sent, and why. Pure.

The page, "Recipient filters" (policy step 16). Such a recipient is no error: its
delivery starts ``suppressed`` and says which rule it was.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from suppressions.statuses import SuppressionReason


class ListRule(StrEnum):
    """Why a recipient is set aside without being suppressed."""

    SEND_BLOCK = "send_block"
    NOT_ON_ALLOWLIST = "not_on_allowlist"
    UNKNOWN_RECIPIENT = "unknown_recipient"


class DryRunRefusal(StrEnum):
    """What a dry run answers when nobody at all would be written to (422)."""

    ALL_RECIPIENTS_SUPPRESSED = "all_recipients_suppressed"
    RECIPIENT_BLOCKED = "recipient_blocked"


@dataclass(frozen=True, slots=True)
class FilterFacts:
    """What the rows say of the recipients of one message, by normalised address.

    ``known`` have a contact with mail in either direction; ``inside`` are reached on
    this deployment, where that was asked. Entries are addresses or ``@domain``, as they
    are stored.
    """

    suppressed: Mapping[str, SuppressionReason] = field(default_factory=dict)
    blocked: frozenset[str] = frozenset()
    allowed: frozenset[str] = frozenset()
    known: frozenset[str] = frozenset()
    inside: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Filtered:
    """Why a recipient is set aside: for the API, and in the delivery's response."""

    reason: SuppressionReason | ListRule
    smtp_response: str


def filter_recipient(
    address: str, facts: FilterFacts, *, allowlist_only: bool, require_known: bool
) -> Filtered | None:
    """Return the first rule that sets a recipient aside, or None.

    ``allowlist_only`` is the tenant's ``send_allowlist_only``, ``require_known`` the
    identity's ``require_known_recipient``. Block beats allow.
    """
    if (reason := facts.suppressed.get(address)) is not None:
        return Filtered(reason, f"policy: suppression ({reason})")
    if (rule := _list_rule(address, facts, allowlist_only, require_known)) is not None:
        return Filtered(rule, f"policy: {rule}")
    return None


def filter_recipients(
    addresses: Iterable[str],
    facts: FilterFacts,
    *,
    allowlist_only: bool,
    require_known: bool,
) -> dict[str, Filtered]:
    """Return the recipients that are set aside, each with its rule."""
    judged = {
        address: filter_recipient(
            address, facts, allowlist_only=allowlist_only, require_known=require_known
        )
        for address in addresses
    }
    return {address: found for address, found in judged.items() if found is not None}


def dry_run_refusal(
    addresses: Iterable[str], filtered: Mapping[str, Filtered]
) -> DryRunRefusal | None:
    """Return what a dry run is refused with: None while anybody would be written to.

    ``recipient_blocked`` when lists and rules alone are the cause: then the tenant can
    let the recipient in, where a suppression would have to be lifted.
    """
    recipients = list(addresses)
    if not recipients or any(address not in filtered for address in recipients):
        return None
    rules = {filtered[address].reason for address in recipients}
    if any(isinstance(rule, SuppressionReason) for rule in rules):
        return DryRunRefusal.ALL_RECIPIENTS_SUPPRESSED
    return DryRunRefusal.RECIPIENT_BLOCKED


def list_entries(address: str) -> tuple[str, str]:
    """Return the two entries that can name an address: itself, and its ``@domain``."""
    return address, f"@{address.rpartition('@')[2]}"


def _list_rule(
    address: str, facts: FilterFacts, allowlist_only: bool, require_known: bool
) -> ListRule | None:
    entries = frozenset(list_entries(address))
    if entries & facts.blocked:
        return ListRule.SEND_BLOCK
    if allowlist_only and not entries & facts.allowed:
        return ListRule.NOT_ON_ALLOWLIST
    if require_known and address not in facts.known:
        return ListRule.UNKNOWN_RECIPIENT
    return None
