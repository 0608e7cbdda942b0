"""What may be done with an address, over every role and status."""

from itertools import product

import pytest

from core.errors import PylotaError
from mailboxes.address_rules import (
    Standing,
    check_deletion,
    check_promotion,
    check_retirement,
    previous_becomes,
)
from mailboxes.statuses import AddressRole, AddressStatus

P, A = AddressRole.PRIMARY, AddressRole.ALIAS
PENDING, ACTIVE = AddressStatus.PENDING, AddressStatus.ACTIVE
RETIRING, RETIRED = AddressStatus.RETIRING, AddressStatus.RETIRED
EVERY = [Standing(*s) for s in product(AddressRole, AddressStatus, (False, True))]


def refusal(check: object) -> str | None:
    try:
        check()  # type: ignore[operator]  # a lambda of the test
    except PylotaError as error:
        return error.code
    return None


@pytest.mark.parametrize("standing", EVERY)
def test_only_a_pending_alias_of_the_tenants_domain_is_deleted(
    standing: Standing,
) -> None:
    code = refusal(lambda: check_deletion(standing))

    if standing.is_platform:
        assert code == "address_in_use"
    elif standing.role == P:
        assert code == "address_is_primary"
    else:
        assert code == (None if standing.status == PENDING else "address_in_use")


@pytest.mark.parametrize("standing", EVERY)
def test_neither_the_primary_nor_the_platforms_address_retires(
    standing: Standing,
) -> None:
    code = refusal(lambda: check_retirement(standing))

    if standing.is_platform:
        assert code == "address_in_use"
    elif standing.role == P:
        assert code == "address_is_primary"
    else:
        assert code == ("invalid_request" if standing.status == PENDING else None)


@pytest.mark.parametrize("is_ready", [True, False])
@pytest.mark.parametrize("status", list(AddressStatus))
def test_a_promotion_needs_a_ready_domain_and_an_address_that_lives(
    status: AddressStatus, is_ready: bool
) -> None:
    standing = Standing(A, status, is_platform=False)
    code = refusal(lambda: check_promotion(standing, is_ready=is_ready))

    if status == RETIRED:
        assert code == "invalid_request"
    elif status == PENDING or not is_ready:
        assert code == "domain_not_ready"
    else:
        assert code is None


@pytest.mark.parametrize(
    ("promoted", "previous_is_platform", "days", "becomes"),
    [
        (Standing(A, ACTIVE, is_platform=False), False, 90, RETIRING),
        (Standing(A, ACTIVE, is_platform=False), False, 0, RETIRED),
        (Standing(A, ACTIVE, is_platform=False), True, 90, ACTIVE),
        (Standing(A, ACTIVE, is_platform=False), True, 0, ACTIVE),
        (Standing(A, RETIRING, is_platform=False), False, 0, ACTIVE),
        (Standing(A, ACTIVE, is_platform=True), False, 0, ACTIVE),
    ],
)
def test_the_primary_before_retires_unless_it_is_the_platforms_or_this_goes_back(
    promoted: Standing, previous_is_platform: bool, days: int, becomes: AddressStatus
) -> None:
    previous = Standing(P, ACTIVE, previous_is_platform)

    assert previous_becomes(promoted, previous, after_days=days) == becomes
