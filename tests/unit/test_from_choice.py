"""Which address a message comes from: every status, pinned threads, named addresses."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from core.errors import InvalidRequest
from domains.statuses import DomainKind, DomainState
from mailboxes.statuses import AddressRole, AddressStatus
from outbound.from_choice import (
    FromChoice,
    ThreadSender,
    choose_from,
    is_still_pinned,
)

NOW = datetime(2026, 5, 4, 9, tzinfo=UTC)
QUIET = NOW - timedelta(hours=73)
OWN, OLD, PLATFORM = "ada@acme.example", "old@acme.example", "ada.acme@agents.example"


@dataclass(frozen=True)
class Own:
    address: str
    role: AddressRole = AddressRole.ALIAS
    status: AddressStatus = AddressStatus.ACTIVE
    domain_kind: DomainKind = DomainKind.EXTERNAL
    domain_state: DomainState = DomainState.HEALTHY


def addresses(
    old: AddressStatus = AddressStatus.ACTIVE,
    state: DomainState = DomainState.HEALTHY,
) -> list[Own]:
    return [
        Own(OWN, role=AddressRole.PRIMARY, domain_state=state),
        Own(OLD, status=old, domain_state=state),
        Own(PLATFORM, domain_kind=DomainKind.PLATFORM),
    ]


def thread(
    address: str | None = OLD, *, pinned: bool = False, last_at: datetime = NOW
) -> ThreadSender:
    return ThreadSender(address, pinned, last_at)


def test_a_new_thread_comes_from_the_primary_address() -> None:
    assert choose_from(addresses(), wanted=None, thread=None, now=NOW) == FromChoice(
        OWN
    )


@pytest.mark.parametrize(
    ("status", "chosen"),
    [
        (AddressStatus.ACTIVE, OLD),
        (AddressStatus.RETIRING, OLD),
        (AddressStatus.RETIRED, OWN),
        (AddressStatus.PENDING, OWN),
    ],
)
def test_a_thread_is_answered_from_the_address_it_was_written_to(
    status: AddressStatus, chosen: str
) -> None:
    found = choose_from(addresses(status), wanted=None, thread=thread(), now=NOW)

    assert found == FromChoice(chosen)


def test_a_thread_that_remembers_no_address_is_answered_from_the_primary() -> None:
    for remembered in (None, "gone@acme.example"):
        found = choose_from(
            addresses(), wanted=None, thread=thread(remembered), now=NOW
        )

        assert found == FromChoice(OWN)


@pytest.mark.parametrize("state", list(DomainState))
@pytest.mark.parametrize("last_at", [NOW, NOW - timedelta(hours=72), QUIET])
def test_a_pinned_thread_is_unpinned_when_healthy_and_quiet_for_72_hours(
    state: DomainState, last_at: datetime
) -> None:
    own = addresses(state=state)
    pinned = thread(pinned=True, last_at=last_at)

    found = choose_from(own, wanted=None, thread=pinned, now=NOW)

    if state == DomainState.HEALTHY and last_at == QUIET:
        assert found == FromChoice(OLD, unpins=True)
        assert not is_still_pinned(own, pinned, now=NOW)
    else:
        assert found == FromChoice(PLATFORM)
        assert is_still_pinned(own, pinned, now=NOW)


def test_a_thread_that_was_never_pinned_is_not_unpinned() -> None:
    found = choose_from(addresses(), wanted=None, thread=thread(last_at=QUIET), now=NOW)

    assert found == FromChoice(OLD, unpins=False)


def test_a_pinned_thread_whose_address_has_retired_comes_back_to_the_primary() -> None:
    own = addresses(AddressStatus.RETIRED)
    pinned = thread(pinned=True, last_at=QUIET)

    found = choose_from(own, wanted=None, thread=pinned, now=NOW)

    assert found == FromChoice(OWN, unpins=True)


def test_without_a_platform_address_a_pinned_thread_keeps_its_own() -> None:
    own = addresses(state=DomainState.FAILING)[:2]

    found = choose_from(own, wanted=None, thread=thread(pinned=True), now=NOW)

    assert found == FromChoice(OLD)


@pytest.mark.parametrize("spelling", [OLD, " OLD@Acme.example ", "<old@ACME.example.>"])
def test_a_named_address_is_taken_in_any_spelling(spelling: str) -> None:
    found = choose_from(addresses(), wanted=spelling, thread=None, now=NOW)

    assert found == FromChoice(OLD)


def test_a_named_address_overrides_a_pinned_thread_and_leaves_it_pinned() -> None:
    pinned = thread(pinned=True, last_at=QUIET)

    assert choose_from(addresses(), wanted=OWN, thread=pinned, now=NOW) == FromChoice(
        OWN
    )


@pytest.mark.parametrize(
    ("on", "allowed"),
    [
        (None, False),
        (ThreadSender(OWN, False, NOW), False),
        (ThreadSender(OLD, False, NOW), True),
        (ThreadSender(OWN, False, NOW, frozenset({OLD})), True),
    ],
)
def test_g7_a_retiring_address_may_be_named_on_its_own_threads_only(
    on: ThreadSender | None, allowed: bool
) -> None:
    own = addresses(AddressStatus.RETIRING)
    if allowed:
        assert choose_from(own, wanted=OLD, thread=on, now=NOW) == FromChoice(OLD)
        return
    with pytest.raises(InvalidRequest) as caught:
        choose_from(own, wanted=OLD, thread=on, now=NOW)

    assert caught.value.details["errors"][0]["path"] == "from_address"


@pytest.mark.parametrize(
    "wanted", ["", "nobody@acme.example", "dörte@acme.example", "x"]
)
def test_an_address_of_somebody_else_is_refused_with_its_path(wanted: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        choose_from(addresses(), wanted=wanted, thread=thread(), now=NOW)

    assert caught.value.details["errors"][0]["path"] == "from_address"


def test_a_retired_address_is_refused_even_on_its_thread() -> None:
    with pytest.raises(InvalidRequest):
        choose_from(
            addresses(AddressStatus.RETIRED), wanted=OLD, thread=thread(), now=NOW
        )


def test_a_pending_address_passes_for_the_next_step_to_answer() -> None:
    own = addresses(AddressStatus.PENDING)

    assert choose_from(own, wanted=OLD, thread=None, now=NOW) == FromChoice(OLD)


def test_an_identity_without_a_primary_address_cannot_choose() -> None:
    with pytest.raises(InvalidRequest, match="primary"):
        choose_from([], wanted=None, thread=None, now=NOW)
