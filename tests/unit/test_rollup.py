"""The message's status is a function of its deliveries."""

from itertools import combinations_with_replacement

import pytest

from delivery.rollup import FINAL, LATE, roll_up
from delivery.statuses import OPEN, TRANSITIONS, DeliveryKind, DeliveryStatus
from mailboxes.statuses import MessageStatus

D, K, M = DeliveryStatus, DeliveryKind, MessageStatus


@pytest.mark.parametrize(
    ("current", "deliveries", "expected"),
    [
        (M.QUEUED, [D.SUPPRESSED], M.SUPPRESSED),
        (M.QUEUED, [], M.SUPPRESSED),
        (M.SUBMITTED, [D.DELIVERED, D.COMPLAINED], M.COMPLAINED),
        (M.QUEUED, [D.QUEUED, D.SUBMITTED], M.QUEUED),
        (M.QUEUED, [D.QUEUED, D.COMPLAINED], M.QUEUED),
        (M.UNCERTAIN, [D.UNCERTAIN, D.DELIVERED], M.UNCERTAIN),
        (M.UNCERTAIN, [D.UNCERTAIN, D.SUBMITTED], M.SUBMITTED),
        (M.UNCERTAIN, [D.UNCERTAIN, D.DEFERRED], M.DEFERRED),
        (M.SUBMITTED, [D.SUBMITTED, D.DEFERRED], M.DEFERRED),
        (M.QUEUED, [D.SUBMITTED, D.BOUNCED], M.SUBMITTED),
        (M.SUBMITTED, [D.BOUNCED, D.FAILED, D.REJECTED, D.DELIVERED], M.BOUNCED),
        (M.SUBMITTED, [D.FAILED, D.REJECTED, D.DELIVERED], M.FAILED),
        (M.SUBMITTED, [D.REJECTED, D.DELIVERED], M.REJECTED),
        (M.SUBMITTED, [D.DELIVERED, D.SUPPRESSED], M.DELIVERED),
        (M.CANCELED, [D.QUEUED], M.CANCELED),
        (M.DELIVERED, [D.BOUNCED], M.BOUNCED),
        (M.FAILED, [D.BOUNCED], M.FAILED),
    ],
)
def test_the_first_rule_that_fits_decides(
    current: MessageStatus, deliveries: list[DeliveryStatus], expected: MessageStatus
) -> None:
    assert roll_up(current, deliveries) == expected


def test_a_final_status_changes_only_to_a_late_bounce_or_complaint() -> None:
    for current in FINAL:
        for present in combinations_with_replacement(D, 2):
            rolled = roll_up(current, present)
            assert rolled == current or (current, rolled) in LATE


@pytest.mark.parametrize("kind", DeliveryKind)
@pytest.mark.parametrize("status", DeliveryStatus)
def test_every_cell_of_the_transition_table(
    status: DeliveryStatus, kind: DeliveryKind
) -> None:
    late = {K.BOUNCED, K.COMPLAINED}
    applies = kind != K.SENT and (
        status in OPEN or (status in {D.DELIVERED, D.BOUNCED} and kind in late)
    )
    expected = DeliveryStatus(kind) if applies else None

    assert TRANSITIONS.get((status, kind)) == expected
