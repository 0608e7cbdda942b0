"""Events in every order: what a recipient and its message end as, by the page's rules.

The table is walked here without a database, beside a second, slower telling of the
page: rank what was said, and let the first rule that fits decide.
"""

from collections.abc import Iterator, Sequence
from itertools import permutations, product

import pytest

from delivery.rollup import roll_up
from delivery.statuses import (
    ACCEPTED,
    OPEN,
    RESULT_OF,
    TRANSITIONS,
    DeliveryKind,
    DeliveryStatus,
)
from mailboxes.statuses import MessageStatus

D, K, M = DeliveryStatus, DeliveryKind, MessageStatus
KINDS = tuple(RESULT_OF)
AT_MOST = 3

Walk = tuple[DeliveryStatus, MessageStatus, int]
"""Where a walk ends: the recipient, the message, and units charged."""


def walk(
    start: DeliveryStatus, events: Sequence[DeliveryKind], *, others: DeliveryStatus
) -> Walk:
    """Apply events to one of two recipients; the other stays as it is."""
    status = start
    message = roll_up(M(start) if start != D.QUEUED else M.QUEUED, [start, others])
    charged = int(start in ACCEPTED)
    for kind in events:
        after = TRANSITIONS.get((status, kind))
        if after is None:
            continue
        charged += int(not charged and after in ACCEPTED)
        status = after
        message = roll_up(message, [status, others])
    return status, message, charged


def told(start: DeliveryStatus, events: Sequence[DeliveryKind]) -> DeliveryStatus:
    """Say what the page makes of the same events: each rule as its table words it."""
    status = start
    for kind in events:
        match status:
            case D.QUEUED | D.SUBMITTED | D.UNCERTAIN | D.DEFERRED:
                status = D(kind.value)
            case D.DELIVERED if kind in (K.BOUNCED, K.COMPLAINED):
                status = D(kind.value)
            case D.BOUNCED if kind == K.COMPLAINED:
                status = D.COMPLAINED
            case _:
                pass  # ignored, or details updated
    return status


def orders() -> Iterator[tuple[DeliveryKind, ...]]:
    """Every order of every one to three events, the same kind again among them."""
    for length in range(1, AT_MOST + 1):
        yield from product(KINDS, repeat=length)


@pytest.mark.parametrize("start", sorted(OPEN))
def test_every_order_ends_as_the_page_says_and_charges_once(
    start: DeliveryStatus,
) -> None:
    for events in orders():
        ended, message, charged = walk(start, events, others=D.SUPPRESSED)
        assert ended == told(start, events), events
        assert message == M(ended.value), events
        was_taken = ended in ACCEPTED or start in ACCEPTED or K.DEFERRED in events[:1]
        assert charged == int(was_taken), events


@pytest.mark.parametrize("start", sorted(OPEN))
def test_an_event_that_comes_again_changes_nothing_more(start: DeliveryStatus) -> None:
    for events in orders():
        doubled = [kind for kind in events for _ in range(2)]
        assert walk(start, doubled, others=D.SUPPRESSED) == walk(
            start, events, others=D.SUPPRESSED
        )


def test_where_the_table_says_so_the_order_does_not_matter() -> None:
    """A complaint outranks a bounce, a bounce a delivery, a delivery a delay."""
    ranked = (K.DEFERRED, K.DELIVERED, K.BOUNCED, K.COMPLAINED)
    for size in range(1, len(ranked) + 1):
        for events in permutations(ranked, size):
            worst = max(events, key=ranked.index)
            assert told(D.SUBMITTED, events) == D(worst.value), events
            ended, message, charged = walk(D.SUBMITTED, events, others=D.SUPPRESSED)
            assert (ended, message, charged) == (D(worst.value), M(worst.value), 1)


@pytest.mark.parametrize("others", sorted(set(D) - {D.QUEUED, D.SUPPRESSED}))
def test_a_final_message_goes_back_from_nothing_whatever_the_other_recipient_is(
    others: DeliveryStatus,
) -> None:
    late = {(M.DELIVERED, M.BOUNCED), (M.DELIVERED, M.COMPLAINED)}
    late |= {(M.BOUNCED, M.COMPLAINED)}
    for events in orders():
        before = roll_up(M.SUBMITTED, [D.SUBMITTED, others])
        status = D.SUBMITTED
        for kind in events:
            status = TRANSITIONS.get((status, kind), status)
            after = roll_up(before, [status, others])
            is_final = before not in (M.SUBMITTED, M.DEFERRED, M.UNCERTAIN)
            assert not is_final or after == before or (before, after) in late, events
            before = after
