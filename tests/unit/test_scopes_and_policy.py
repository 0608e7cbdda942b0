"""Scopes by level, and how the layers of a tenant's policy merge."""

import re
from typing import Any

import pytest

from mailboxes import policy
from mailboxes.scopes import LEVELS, Scope, allowed_at, effective
from mailboxes.statuses import KeyLevel


def test_every_scope_says_which_levels_may_hold_it() -> None:
    assert set(LEVELS) == set(Scope)
    assert all(KeyLevel.PLATFORM in levels for levels in LEVELS.values())


@pytest.mark.parametrize("level", KeyLevel)
def test_a_key_never_holds_what_its_level_cannot(level: KeyLevel) -> None:
    held = effective(level, [str(scope) for scope in Scope])

    assert held == allowed_at(level)


def test_usage_is_implicit_below_the_platform_and_unknown_words_grant_nothing() -> None:
    assert effective(KeyLevel.TENANT, ["no:such"]) == {Scope.USAGE_READ}
    assert effective(KeyLevel.PLATFORM, ["no:such"]) == frozenset()


def test_managing_webhooks_includes_reading_them() -> None:
    assert Scope.WEBHOOKS_READ in effective(KeyLevel.TENANT, ["webhooks:manage"])


def test_layers_merge_object_by_object_and_null_resets() -> None:
    merged = policy.effective_policy(
        {"max_recipients": 20, "ai_disclosure": {"mode": "footer"}},
        {"max_recipients": None, "ai_disclosure": {"text": "A machine wrote this."}},
    )

    assert merged["max_recipients"] == 20
    assert merged["ai_disclosure"] == {
        "mode": "footer",
        "text": "A machine wrote this.",
    }
    assert merged["identity_daily_send_cap"] == 500


def test_merging_leaves_the_built_in_policy_alone() -> None:
    before = policy.effective_policy()
    policy.effective_policy({"auto_reply": {"allowed": False}})["abuse"].clear()

    assert policy.effective_policy() == before


@pytest.mark.parametrize(("value", "most"), [(10, 10), (49, 49), (500, 49), (0, 1)])
def test_no_policy_allows_more_than_49_recipients(value: int, most: int) -> None:
    assert policy.max_recipients({"max_recipients": value}) == most


@pytest.mark.parametrize(
    "overrides",
    [
        {},
        {"max_recipients": 5, "send_allowlist_only": True, "large_attachments": "link"},
        {"abuse": {"bounce_rate_pause": 1}, "retention": {"message_days": 365}},
        {"ai_disclosure": {"mode": "header", "text": None}, "auto_reply": None},
    ],
)
def test_a_policy_of_known_fields_is_taken(overrides: dict[str, Any]) -> None:
    policy.check(overrides)

    assert set(policy.effective_policy(overrides)) == set(policy.BUILT_IN)


@pytest.mark.parametrize(
    ("overrides", "path"),
    [
        ({"max_recipient": 5}, "max_recipient"),
        ({"max_recipients": "5"}, "max_recipients"),
        ({"max_recipients": True}, "max_recipients"),
        ({"max_recipients": -1}, "max_recipients"),
        ({"send_allowlist_only": 1}, "send_allowlist_only"),
        ({"abuse": 0.1}, "abuse"),
        ({"abuse": {"bounce_rate": 0.1}}, "abuse.bounce_rate"),
        ({"ai_disclosure": {"mode": "loud"}}, "ai_disclosure.mode"),
        ({"large_attachments": "links"}, "large_attachments"),
        ({"max_recipients": 50}, "max_recipients"),
        ({"link_ttl_hours": 0}, "link_ttl_hours"),
        ({"retention": {"events_days": 366}}, "retention.events_days"),
        ({"identity_daily_send_cap": 10**30}, "identity_daily_send_cap"),
        ({"abuse": {"bounce_rate_pause": 1.1}}, "abuse.bounce_rate_pause"),
    ],
)
def test_a_policy_with_a_wrong_field_names_it(
    overrides: dict[str, Any], path: str
) -> None:
    with pytest.raises(ValueError, match=rf"{re.escape(path)}$"):
        policy.check(overrides)
