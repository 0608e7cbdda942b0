"""When an endpoint is on: every reason, every change."""

from itertools import product

import pytest

from core.errors import InvalidRequest
from webhooks.rules import switched
from webhooks.statuses import DisabledReason as R

REASONS = (None, *R)


@pytest.mark.parametrize(
    ("reason", "enabled"), list(product(REASONS, (None, False))), ids=str
)
def test_a_new_url_is_off_for_that_reason_alone(
    reason: R | None, enabled: bool | None
) -> None:
    assert switched(reason, has_new_url=True, enabled=enabled) == R.URL_CHANGED


@pytest.mark.parametrize(
    ("reason", "has_new_url"),
    [*product(REASONS, [True]), (R.URL_CHANGED, False)],
    ids=str,
)
def test_nobody_turns_on_a_url_that_no_test_has_reached(
    reason: R | None, has_new_url: bool
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        switched(reason, has_new_url=has_new_url, enabled=True)

    (error,) = refused.value.details["errors"]
    assert error["path"] == "enabled"


@pytest.mark.parametrize("reason", REASONS, ids=str)
def test_what_is_not_said_changes_nothing(reason: R | None) -> None:
    assert switched(reason, has_new_url=False, enabled=None) == reason


@pytest.mark.parametrize("reason", REASONS, ids=str)
def test_the_first_reason_stays(reason: R | None) -> None:
    off = switched(reason, has_new_url=False, enabled=False)

    assert off == (reason or R.MANUAL)


@pytest.mark.parametrize("reason", [None, R.MANUAL, R.FAILING, R.GONE], ids=str)
def test_every_other_reason_ends_when_somebody_turns_it_on(reason: R | None) -> None:
    assert switched(reason, has_new_url=False, enabled=True) is None
