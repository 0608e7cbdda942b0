"""What the fields of an identity write, and what counts as a change."""

from types import SimpleNamespace
from typing import Any

import pytest

from core.errors import ScopeDenied
from mailboxes.api.identity_schemas import IdentityPatch
from mailboxes.identity_rules import changed_columns, check_daily_cap, columns_of

ROW = SimpleNamespace(
    display_name="Desk",
    purpose="travel",
    owner_name="Ada",
    owner_email="ada@example.com",
    signature_text="Bye",
    signature_html=None,
    send_policy={"daily_cap": 9},
    metadata={"a": "1"},
)


@pytest.mark.parametrize(
    ("given", "columns", "changed"),
    [
        ({}, {}, []),
        ({"display_name": "Desk"}, {"display_name": "Desk"}, []),
        ({"purpose": None}, {"purpose": None}, ["purpose"]),
        ({"owner": None}, {"owner_name": None, "owner_email": None}, ["owner"]),
        (
            {"signature": {"html": "<b>x</b>"}},
            {"signature_text": None, "signature_html": "<b>x</b>"},
            ["signature"],
        ),
        ({"send_policy": None}, {"send_policy": {}}, ["send_policy"]),
        ({"send_policy": {"daily_cap": 9}}, {"send_policy": {"daily_cap": 9}}, []),
        ({"send_policy": {"daily_cap": None}}, {"send_policy": {}}, ["send_policy"]),
        (
            {"send_policy": {"auto_reply": "denied"}},
            {"send_policy": {"daily_cap": 9, "auto_reply": "denied"}},
            ["send_policy"],
        ),
        ({"metadata": {"b": "2"}}, {"metadata": {"b": "2"}}, ["metadata"]),
        ({"metadata": None}, {"metadata": {}}, ["metadata"]),
    ],
)
def test_a_field_writes_its_columns_and_null_resets_it(
    given: dict[str, Any], columns: dict[str, Any], changed: list[str]
) -> None:
    written = columns_of(given, send_policy=ROW.send_policy)

    assert written == columns
    assert changed_columns(given, written, ROW) == changed


def test_the_html_of_a_signature_is_safe_once_it_is_read() -> None:
    read = IdentityPatch.parse({"signature": {"html": "<b>x</b><script>y</script>"}})

    assert read.given()["signature"].html == "<b>x</b>"


@pytest.mark.parametrize(
    ("cap", "ceiling", "is_refused"),
    [(10, 10, False), (11, 10, True), (11, None, False), (None, 10, False)],
)
def test_a_daily_cap_stays_below_the_tenants_for_an_identity(
    cap: int | None, ceiling: int | None, is_refused: bool
) -> None:
    given = {"send_policy": {"daily_cap": cap}}

    if not is_refused:
        check_daily_cap(given, ceiling=ceiling)
        return
    with pytest.raises(ScopeDenied) as refusal:
        check_daily_cap(given, ceiling=ceiling)
    assert refusal.value.details == {
        "field": "send_policy.daily_cap",
        "reason": "above_ceiling",
        "ceiling": ceiling,
    }
