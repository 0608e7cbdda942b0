"""Daily caps: whose cap is reached, and which warnings a count has earned."""

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quota.caps import (
    SYSTEM_CAP,
    Caps,
    QuotaWarning,
    Scope,
    cap_reached,
    caps_of,
    warning_marks,
)

IDENTITY = "idn_01ARZ3NDEKTSV4RRFFQ69G5FAV"
POLICY: dict[str, Any] = {"identity_daily_send_cap": 500, "tenant_daily_send_cap": 5000}


@pytest.mark.parametrize(
    ("send_policy", "is_system", "caps"),
    [
        ({}, False, Caps(IDENTITY, 500, 5000)),
        ({"daily_cap": None}, False, Caps(IDENTITY, 500, 5000)),
        ({"daily_cap": 7}, False, Caps(IDENTITY, 7, 5000)),
        ({"daily_cap": 0}, False, Caps(IDENTITY, 0, 5000)),
        ({"daily_cap": 7}, True, Caps(IDENTITY, SYSTEM_CAP, None)),
    ],
)
def test_the_identitys_own_cap_comes_before_the_policys(
    send_policy: dict[str, Any], is_system: bool, caps: Caps
) -> None:
    found = caps_of(
        IDENTITY, policy=POLICY, send_policy=send_policy, is_system=is_system
    )

    assert found == caps


@pytest.mark.parametrize(
    ("identity", "tenant"), list(itertools.product([0, 4, 5, 6], [0, 9, 10, 11]))
)
def test_e3_one_message_more_must_fit_under_both_caps(
    identity: int, tenant: int
) -> None:
    caps = Caps(IDENTITY, 5, 10)

    scope = cap_reached(caps, {f"sends:{IDENTITY}": identity, "sends": tenant})

    if identity >= 5:
        assert scope == Scope.IDENTITY  # reported first
    else:
        assert scope == (Scope.TENANT if tenant >= 10 else None)


def test_without_a_tenant_cap_the_tenants_count_does_not_matter() -> None:
    assert cap_reached(Caps(IDENTITY, 5, None), {"sends": 10**9}) is None
    assert list(Caps(IDENTITY, 5, None).metrics()) == [f"sends:{IDENTITY}"]


def test_a_cap_of_zero_allows_nothing() -> None:
    assert cap_reached(Caps(IDENTITY, 0, 10), {}) == Scope.IDENTITY


@pytest.mark.parametrize(
    ("used", "cap", "percents"),
    [
        (399, 500, []),
        (400, 500, [80]),
        (499, 500, [80]),
        (500, 500, [80, 100]),
        (2, 3, []),
        (3, 3, [80, 100]),
        (1, 1, [80, 100]),
        (700, 500, [80, 100]),
    ],
)
def test_marks_are_reached_at_80_and_100_percent(
    used: int, cap: int, percents: list[int]
) -> None:
    assert warning_marks("sends", used=used, cap=cap) == {
        f"warned:sends:{percent}": percent for percent in percents
    }


@given(st.integers(1, 2000))
def test_on_the_way_to_a_cap_each_mark_is_reached_exactly_once(cap: int) -> None:
    told: list[str] = []
    for used in range(1, cap + 1):
        told += [m for m in warning_marks("m", used=used, cap=cap) if m not in told]

    assert told == ["warned:m:80", "warned:m:100"]


def test_a_warning_says_what_its_event_says() -> None:
    assert QuotaWarning(Scope.IDENTITY, 80, 400, 500).event_data() == {
        "metric": "sends",
        "used": 400,
        "limit": 500,
        "scope": "identity",
    }
