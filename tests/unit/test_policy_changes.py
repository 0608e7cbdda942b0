"""What a key may change of a policy, and what the change comes to."""

from typing import Any

import pytest

from mailboxes.policy import BUILT_IN
from mailboxes.policy_changes import (
    LOWER_ONLY,
    TIGHTEN_ONLY,
    Layers,
    PolicyDenied,
    by_field,
    change,
    nested,
)
from mailboxes.policy_fields import PolicyFields
from mailboxes.statuses import KeyLevel

P, T = KeyLevel.PLATFORM, KeyLevel.TENANT
FIELDS = by_field(BUILT_IN)


def layers(
    overrides: dict[str, Any] | None = None,
    *,
    deployment: dict[str, Any] | None = None,
    ceilings: dict[str, Any] | None = None,
) -> Layers:
    return Layers(deployment or {}, overrides or {}, ceilings or {})


def test_the_form_of_a_policy_names_the_fields_of_the_built_in_one() -> None:
    everything = PolicyFields.model_validate(dict(BUILT_IN))

    assert by_field(everything.model_dump()) == FIELDS
    assert set(FIELDS) >= LOWER_ONLY | TIGHTEN_ONLY


def test_an_object_is_merged_and_null_resets() -> None:
    found = change(
        layers({"abuse": {"bounce_rate_pause": 0.01}, "max_recipients": 5}),
        {"abuse": {"complaint_rate_pause": 0.002}, "max_recipients": None},
        by=P,
    )

    assert found.overrides == {
        "abuse": {"bounce_rate_pause": 0.01, "complaint_rate_pause": 0.002}
    }
    assert found.fields == ("abuse.complaint_rate_pause", "max_recipients")


def test_a_null_object_resets_each_of_its_fields() -> None:
    own = {"ai_disclosure": {"mode": "footer", "text": "A machine wrote this."}}

    found = change(layers(own), {"ai_disclosure": None}, by=T)

    assert found.overrides == {}
    assert found.fields == ("ai_disclosure.mode", "ai_disclosure.text")


def test_what_stays_as_it_is_is_no_change() -> None:
    known = layers({"max_recipients": 5}, ceilings={"max_recipients": 5})

    assert change(known, {"max_recipients": 5}, by=P).fields == ()
    assert change(known, {"auto_reply": {"allowed": None}}, by=T).fields == ()


@pytest.mark.parametrize("field", sorted(LOWER_ONLY))
def test_a_tenant_lowers_these_fields_and_raises_none_of_them(field: str) -> None:
    default = FIELDS[field]
    lower, higher = (False, None) if default is True else (default / 2, default * 2)

    assert change(layers(), nested({field: lower}), by=T).fields == (field,)
    if higher is not None:
        with pytest.raises(PolicyDenied) as refusal:
            change(layers(), nested({field: higher}), by=T)
        assert refusal.value.details == {
            "field": field,
            "reason": "above_ceiling",
            "ceiling": default,
        }


def test_automatic_replies_that_the_deployment_forbids_stay_forbidden() -> None:
    forbidden = layers(deployment={"auto_reply": {"allowed": False}})

    with pytest.raises(PolicyDenied) as refusal:
        change(forbidden, {"auto_reply": {"allowed": True}}, by=T)

    assert refusal.value.details["ceiling"] is False


@pytest.mark.parametrize(
    ("deployment", "platform", "ceiling"), [(10, 5, 5), (5, 10, 5), (20, None, 20)]
)
def test_the_ceiling_is_the_stricter_of_deployment_and_platform(
    deployment: int, platform: int | None, ceiling: int
) -> None:
    known = layers(
        {"max_recipients": 1},
        deployment={"max_recipients": deployment},
        ceilings={} if platform is None else {"max_recipients": platform},
    )

    assert change(known, {"max_recipients": ceiling}, by=T).fields
    with pytest.raises(PolicyDenied):
        change(known, {"max_recipients": ceiling + 1}, by=T)


def test_what_the_platform_writes_becomes_the_ceiling_until_it_is_reset() -> None:
    lowered = change(layers(), {"max_recipients": 5}, by=P)
    reset = change(
        layers(lowered.overrides, ceilings=lowered.ceilings),
        {"max_recipients": None},
        by=P,
    )

    assert lowered.ceilings == {"max_recipients": 5}
    assert reset.ceilings == reset.overrides == {}


def test_a_reset_does_not_lead_a_tenant_past_its_ceiling() -> None:
    known = layers({"max_recipients": 3}, ceilings={"max_recipients": 5})

    with pytest.raises(PolicyDenied):
        change(known, {"max_recipients": None}, by=T)
    assert change(known, {"max_recipients": 5}, by=T).overrides["max_recipients"] == 5


def test_a_tenant_may_send_back_what_the_platform_raised() -> None:
    raised = layers({"max_recipients": 20}, ceilings={"max_recipients": 20})

    assert change(raised, {"max_recipients": 20}, by=T).fields == ()
    with pytest.raises(PolicyDenied):
        change(raised, {"max_recipients": 15}, by=T)
    assert change(raised, {"max_recipients": 10}, by=T).fields == ("max_recipients",)


@pytest.mark.parametrize("wanted", [False, None])
def test_a_tenant_puts_a_guard_in_force_and_does_not_lift_it(wanted: Any) -> None:
    assert change(layers(), {"send_allowlist_only": True}, by=T).fields
    with pytest.raises(PolicyDenied) as refusal:
        change(
            layers({"send_allowlist_only": True}),
            {"send_allowlist_only": wanted},
            by=T,
        )
    assert refusal.value.details["reason"] == "not_writable"
    assert change(
        layers({"send_allowlist_only": True}), {"send_allowlist_only": wanted}, by=P
    ).fields


@pytest.mark.parametrize(
    "free",
    [
        {"large_attachments": "link", "link_ttl_hours": 168},
        {"ai_disclosure": {"mode": "header"}},
        {"domain_fallback": False, "webhook_text_bytes": 65536},
        {"retention": {"message_days": 30}},
    ],
)
def test_the_rest_is_the_tenants_own(free: dict[str, Any]) -> None:
    assert change(layers(), free, by=T).overrides == free


def test_one_refused_field_refuses_the_whole_change() -> None:
    with pytest.raises(PolicyDenied) as refusal:
        change(layers(), {"link_ttl_hours": 24, "max_recipients": 49}, by=T)

    assert refusal.value.details["field"] == "max_recipients"
