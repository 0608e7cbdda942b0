"""Slots: never more than the number, never one domain in the way of another."""

import threading
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from outbound.slots import Slot, Slots
from tests.support.waiting import until


def _slots(size: int = 4, places: int = 4, patience: float = 10) -> Slots:
    return Slots(size, places=places, patience_seconds=patience)


def _taken(slots: Slots, domain: str) -> Slot:
    slot = slots.take(domain)
    assert slot is not None
    return slot


def _wait_in_line(
    pool: ThreadPoolExecutor, slots: Slots, domain: str
) -> "Future[Slot | None]":
    before = slots.waiting
    future = pool.submit(slots.take, domain)
    until(lambda: slots.waiting == before + 1)
    return future


def test_one_domain_alone_has_all_slots_but_the_last() -> None:
    # Given a domain that wants more than there is
    slots = _slots(size=4, places=1, patience=0)

    # When it takes what it gets
    for _ in range(3):
        _taken(slots, "a.test")

    # Then the last slot is kept for somebody else, who gets it at once
    assert slots.take("a.test") is None
    assert slots.take("b.test") is not None
    assert slots.held == 4


@pytest.mark.parametrize(("size", "alone"), [(1, 1), (2, 1), (3, 2), (4, 3), (8, 7)])
def test_every_size_gives_something_to_a_single_domain(size: int, alone: int) -> None:
    slots = _slots(size=size, patience=0)

    taken = [slots.take("a.test") for _ in range(size)]

    assert sum(slot is not None for slot in taken) == alone


def test_while_another_domain_waits_a_domain_holds_at_most_half() -> None:
    # Given one domain above its half and another that waits beyond its own
    slots = _slots()
    first = [_taken(slots, "a.test") for _ in range(3)]
    _taken(slots, "b.test")
    with ThreadPoolExecutor(2) as pool:
        other = _wait_in_line(pool, slots, "b.test")
        again = _wait_in_line(pool, slots, "a.test")

        # When the first gives one back, the other gets it
        first.pop().release()
        assert other.result(5) is not None
        assert not again.done()

        # And the next one goes to the first, which is below its half then
        first.pop().release()
        assert again.result(5) is not None


def test_those_who_wait_are_served_in_the_order_they_came() -> None:
    slots = _slots(size=1, places=8)
    held = _taken(slots, "a.test")
    with ThreadPoolExecutor(3) as pool:
        line = [_wait_in_line(pool, slots, f"{name}.test") for name in "bcd"]
        for waiting in line:
            held.release()
            served = waiting.result(5)
            assert served is not None
            held = served


def test_only_so_many_wait_and_the_others_give_their_rows_back() -> None:
    # Given no free slot and four places to wait, two for each domain
    slots = _slots(size=1, places=4)
    held = _taken(slots, "a.test")
    with ThreadPoolExecutor(4) as pool:
        line = [_wait_in_line(pool, slots, "a.test") for _ in range(2)]

        # Then a third of the same domain is sent away at once, another domain is not
        assert slots.take("a.test") is None
        line += [_wait_in_line(pool, slots, name) for name in ("b.test", "c.test")]
        assert slots.take("d.test") is None

        slots.close()
        assert [waiting.result(5) for waiting in line] == [None] * 4
    held.release()


def test_a_dead_relay_with_a_thousand_messages_leaves_room_for_another() -> None:
    # Given a domain whose calls never end, with every thread asking for more
    slots = _slots(size=4, places=4)
    dead = [_taken(slots, "dead.test") for _ in range(3)]
    with ThreadPoolExecutor(4) as pool:
        line = [_wait_in_line(pool, slots, "dead.test") for _ in range(2)]
        assert [slots.take("dead.test") for _ in range(1000)] == [None] * 1000

        # When another domain has fifty messages, two of them at a time
        for _ in range(50):
            slot = _taken(slots, "live.test")
            next_one = _wait_in_line(pool, slots, "live.test")
            slot.release()
            served = next_one.result(5)

            # Then each finds a slot without a place of the dead one being needed
            assert served is not None
            served.release()
        assert not any(waiting.done() for waiting in line)
        slots.close()
    assert len(dead) == 3


def test_two_dead_relays_leave_the_next_free_slot_to_a_third_domain() -> None:
    """Row 39, with two: their calls hold every slot, their mail wants every place."""
    # Given two domains whose calls hang, with every thread asking for more
    slots = _slots(size=8, places=4)
    held = [_taken(slots, name) for name in ["a.test"] * 4 + ["b.test"] * 4]
    with ThreadPoolExecutor(8) as pool:
        dead = [_wait_in_line(pool, slots, name) for name in ("a.test", "b.test")]
        dead.append(_wait_in_line(pool, slots, "a.test"))
        for name in ("a.test", "b.test"):
            assert [slots.take(name) for _ in range(100)] == [None] * 100

        # When mail of others comes, each has the kept place in its turn
        for name in ("c.test", "d.test"):
            other = _wait_in_line(pool, slots, name)
            assert slots.take("e.test") is None

            # Then the first slot that is freed is its own
            held.pop(0).release()
            assert other.result(5) is not None
        assert not any(waiting.done() for waiting in dead)
        slots.close()


def test_who_holds_fewest_is_served_before_who_came_first() -> None:
    # Given one that came first and holds a slot, and one after it that holds none
    slots = _slots(size=4, places=4)
    held = [_taken(slots, f"{name}.test") for name in "aabx"]
    with ThreadPoolExecutor(2) as pool:
        first = _wait_in_line(pool, slots, "b.test")
        second = _wait_in_line(pool, slots, "c.test")

        # When slots come free, then the one without any goes before
        held.pop().release()
        assert second.result(5) is not None
        assert not first.done()
        held.pop(0).release()
        assert first.result(5) is not None


def test_patience_ends_and_whoever_gave_up_holds_nobody_to_their_half() -> None:
    # Given a domain with all it may have, and another that waits in vain
    slots = _slots(size=1, patience=0.2)
    held = _taken(slots, "a.test")
    with ThreadPoolExecutor(1) as pool:
        waiting = _wait_in_line(pool, slots, "b.test")
        assert waiting.result(5) is None

    # When the slot is given back, nobody is served who has left
    held.release()
    assert (slots.held, slots.waiting) == (0, 0)
    assert slots.take("a.test") is not None


def test_a_slot_given_back_twice_is_one_slot() -> None:
    slots = _slots(size=2)
    with _taken(slots, "a.test") as slot:
        slot.release()

    assert slots.held == 0
    assert slots.take("a.test") is not None
    assert slots.take("b.test") is not None
    assert slots.held == 2


def test_after_the_close_nothing_is_granted() -> None:
    slots = _slots()
    slots.close()

    assert slots.take("a.test") is None


def test_sixteen_threads_never_hold_more_than_there_are() -> None:
    # Given sixteen threads of four domains that take and give back, as fast as they can
    slots = _slots(size=4, places=4)
    barrier = threading.Barrier(16)
    lock = threading.Lock()
    holding: Counter[str] = Counter()
    most: list[int] = []
    served: Counter[str] = Counter()

    def work(number: int) -> None:
        domain = f"{number % 4}.test"
        barrier.wait(5)
        for round_number in range(200):
            if (slot := slots.take(domain)) is None:
                continue
            with slot:
                with lock:
                    holding[domain] += 1
                    most.append(holding.total())
                    served[domain] += 1
                if (number + round_number) % 10 == 0:
                    threading.Event().wait(0.001)
                with lock:
                    holding[domain] -= 1

    # When all are done
    with ThreadPoolExecutor(16) as pool:
        for done in [pool.submit(work, number) for number in range(16)]:
            done.result(60)

    # Then there were never more than four, every domain was served, none is left over
    assert max(most) <= 4
    assert len(served) == 4
    assert (slots.held, slots.waiting) == (0, 0)
