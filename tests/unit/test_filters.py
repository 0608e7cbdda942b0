"""Recipients that are set aside: each rule, their order, and what a dry run says."""

import itertools

import pytest

from suppressions.filters import (
    DryRunRefusal,
    Filtered,
    FilterFacts,
    ListRule,
    dry_run_refusal,
    filter_recipient,
    filter_recipients,
)
from suppressions.statuses import SuppressionReason

JO, LEE = "jo@corp.example", "lee@x.example"


def judge(
    facts: FilterFacts, *, allowlist_only: bool = False, require_known: bool = False
) -> Filtered | None:
    return filter_recipient(
        JO, facts, allowlist_only=allowlist_only, require_known=require_known
    )


@pytest.mark.parametrize("reason", list(SuppressionReason))
def test_g4_a_suppressed_recipient_is_set_aside_with_its_reason(
    reason: SuppressionReason,
) -> None:
    found = judge(FilterFacts(suppressed={JO: reason}))

    assert found == Filtered(reason, f"policy: suppression ({reason.value})")


@pytest.mark.parametrize("entry", [JO, "@corp.example"])
def test_a_send_block_names_an_address_or_a_domain_and_beats_an_allow(
    entry: str,
) -> None:
    facts = FilterFacts(blocked=frozenset({entry}), allowed=frozenset({JO}))

    found = judge(facts, allowlist_only=True)

    assert found == Filtered(ListRule.SEND_BLOCK, "policy: send_block")


@pytest.mark.parametrize("entry", [JO, "@corp.example"])
def test_with_an_allow_list_only_those_on_it_are_written_to(entry: str) -> None:
    assert judge(FilterFacts(allowed=frozenset({entry})), allowlist_only=True) is None
    assert judge(
        FilterFacts(allowed=frozenset({"@example"})), allowlist_only=True
    ) == Filtered(ListRule.NOT_ON_ALLOWLIST, "policy: not_on_allowlist")
    assert judge(FilterFacts()) is None


def test_e2_a_recipient_without_history_is_unknown_where_that_is_asked() -> None:
    assert judge(FilterFacts(), require_known=True) == Filtered(
        ListRule.UNKNOWN_RECIPIENT, "policy: unknown_recipient"
    )
    assert judge(FilterFacts(known=frozenset({JO})), require_known=True) is None


@pytest.mark.parametrize(
    ("suppressed", "blocked", "allowed", "known"),
    list(itertools.product([True, False], repeat=4)),
)
def test_the_first_rule_of_the_page_is_the_one_that_is_told(
    suppressed: bool, blocked: bool, allowed: bool, known: bool
) -> None:
    facts = FilterFacts(
        suppressed={JO: SuppressionReason.COMPLAINT} if suppressed else {},
        blocked=frozenset({JO} if blocked else ()),
        allowed=frozenset({JO} if allowed else ()),
        known=frozenset({JO} if known else ()),
    )
    expected = [
        ("complaint", suppressed),
        ("send_block", blocked),
        ("not_on_allowlist", not allowed),
        ("unknown_recipient", not known),
    ]

    found = judge(facts, allowlist_only=True, require_known=True)

    first = next((rule for rule, applies in expected if applies), None)
    assert (found.reason if found else None) == first


def test_only_those_set_aside_are_listed() -> None:
    facts = FilterFacts(suppressed={JO: SuppressionReason.MANUAL})

    found = filter_recipients(
        [JO, LEE], facts, allowlist_only=False, require_known=False
    )

    assert list(found) == [JO]


SUPPRESSED = Filtered(SuppressionReason.PROVIDER, "policy: suppression (provider)")
BLOCKED = Filtered(ListRule.SEND_BLOCK, "policy: send_block")
UNKNOWN = Filtered(ListRule.UNKNOWN_RECIPIENT, "policy: unknown_recipient")


@pytest.mark.parametrize(
    ("filtered", "refusal"),
    [
        ({}, None),
        ({JO: SUPPRESSED}, None),
        ({JO: SUPPRESSED, LEE: SUPPRESSED}, DryRunRefusal.ALL_RECIPIENTS_SUPPRESSED),
        ({JO: SUPPRESSED, LEE: BLOCKED}, DryRunRefusal.ALL_RECIPIENTS_SUPPRESSED),
        ({JO: BLOCKED, LEE: BLOCKED}, DryRunRefusal.RECIPIENT_BLOCKED),
        ({JO: BLOCKED, LEE: UNKNOWN}, DryRunRefusal.RECIPIENT_BLOCKED),
    ],
)
def test_a_dry_run_is_refused_only_when_nobody_would_be_written_to(
    filtered: dict[str, Filtered], refusal: DryRunRefusal | None
) -> None:
    assert dry_run_refusal([JO, LEE], filtered) == refusal
