"""Whose turn it is: nobody slow holds up anybody else."""

import pytest

from webhooks.slots import NoMoreCalls, Slots

QUICK, SLOW = 0.1, 15.0


def answered(slots: Slots, *endpoints: str) -> None:
    """Let endpoints have answered quickly once."""
    for endpoint in endpoints:
        assert slots.enter(endpoint, "first") == "first"
        slots.leave(endpoint, seconds=QUICK)


def test_one_endpoint_holds_a_quarter_of_the_slots_at_most() -> None:
    slots = Slots(8)
    answered(slots, "a")

    taken = [slots.enter("a", str(n)) for n in range(5)]

    assert taken == ["0", "1", None, None, None]
    assert (slots.held, slots.waiting) == (2, 3)


def test_those_who_did_not_answer_quickly_share_half_of_the_slots() -> None:
    # Given nine receivers that never answered, and one that does
    slots = Slots(8)
    answered(slots, "good")

    # When all of the nine are called, and call by call hangs
    for n in range(9):
        slots.enter(f"dead{n}", str(n))

    # Then half of the slots are theirs, and the others are free for who answers
    assert slots.held == 4
    assert slots.enter("good", "now") == "now"


def test_who_answers_slowly_is_not_quick_any_more() -> None:
    slots = Slots(8)
    answered(slots, "a", "b", "c")
    for endpoint in ("a", "b"):
        assert [slots.enter(endpoint, str(n)) for n in range(2)] == ["0", "1"]
        for _ in range(2):
            slots.leave(endpoint, seconds=SLOW)

    for endpoint in ("a", "b"):
        assert [slots.enter(endpoint, str(n)) for n in range(2)] == ["0", "1"]

    assert slots.enter("new", "0") is None
    assert slots.enter("c", "0") == "0"


def test_who_frees_a_slot_goes_on_with_the_endpoint_that_holds_fewest() -> None:
    slots = Slots(4)
    answered(slots, "a", "b", "c", "d", "e")
    for endpoint in ("a", "b", "c", "d"):
        slots.enter(endpoint, "0")
    for number in ("1", "2", "3"):
        assert slots.enter("a", number) is None
    assert slots.enter("e", "1") is None

    slots.leave("d", seconds=QUICK)

    assert slots.next() == ("e", "1")
    assert slots.next() is None


def test_endpoints_that_wait_take_turns_and_rows_of_one_keep_their_order() -> None:
    slots = Slots(1)
    slots.enter("x", "0")
    for endpoint in ("a", "b"):
        for number in ("1", "2"):
            slots.enter(endpoint, number)

    served = []
    holder = "x"
    for _ in range(4):
        slots.leave(holder, seconds=QUICK)
        turn = slots.next()
        assert turn is not None
        served.append(turn)
        holder = turn[0]

    assert served == [("a", "1"), ("b", "1"), ("a", "2"), ("b", "2")]


def test_a_row_that_waits_twice_is_served_once() -> None:
    slots = Slots(1)
    slots.enter("x", "0")
    for _ in range(3):
        slots.enter("a", "1")

    assert slots.waiting == 1


def test_nobody_is_stuck_behind_rows_whose_thread_died() -> None:
    # Given a row that waits, and no call under way that would go on with it
    slots = Slots(1)
    slots.enter("x", "0")
    assert slots.enter("a", "1") is None
    slots.leave("x", seconds=QUICK)

    # When another of that endpoint comes, it takes the one that came before
    assert slots.enter("a", "2") == "1"
    slots.leave("a", seconds=QUICK)
    assert slots.next() == ("a", "2")


def test_closed_slots_grant_nothing_and_return_what_waits() -> None:
    slots = Slots(1)
    slots.enter("x", "0")
    slots.enter("a", "1")
    slots.enter("b", "2")

    assert slots.close() == ["1", "2"]

    with pytest.raises(NoMoreCalls):
        slots.enter("c", "3")
    slots.leave("x", seconds=QUICK)
    assert slots.next() is None
