"""What waits lets go of everything but its hold, and ends after a day of test time."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from core.clock import database_now
from delivery.models import OutboundState
from mailboxes.models import Message, Thread
from mailboxes.statuses import MessageStatus
from outbound.backoff import SECONDS
from outbound.transports.base import RetryClass, RetryLater
from quota.models import Hold
from tests.factories import QueuedMessageFactory
from tests.services.conftest import assert_units_add_up, events_of, statuses
from tests.support.scripted import ScriptedTransport, work

pytestmark = pytest.mark.django_db
Later = Callable[[float], None]
DAY = timedelta(hours=24)
KEPT = timedelta(minutes=10)
A = "a@example.net"


def _wait_of(message: Message) -> float:
    """Return how long a message waits, once all that a back-off promises is so."""
    now = database_now()
    state = OutboundState.objects.get(message=message)
    assert state.retry_at is not None
    assert state.dispatch_at == state.retry_at <= message.received_at + DAY
    assert (state.claim_token, state.claimed_at) == (None, None)
    assert Thread.objects.get().lock_owner is None
    assert Hold.objects.get().expires_at == state.retry_at + KEPT
    assert events_of(message) == []
    return (state.retry_at - now).total_seconds()


@pytest.mark.parametrize("retry_class", RetryClass)
def test_a_back_off_of_each_class_ends_after_a_day_and_says_so_once(
    scripted: ScriptedTransport, later: Later, retry_class: RetryClass
) -> None:
    # Given a transport that goes on saying "later", and a thread that is held
    message = QueuedMessageFactory.create(recipients=(A,))
    scripted.answers = [RetryLater(retry_class, "later", "not now")] * 100

    waits: list[float] = []
    while message.status == MessageStatus.QUEUED:
        Thread.objects.update(
            lock_owner=message.public_id, lock_until=database_now() + DAY
        )
        work(message.public_id, scripted)
        message.refresh_from_db()
        if message.status == MessageStatus.QUEUED:
            waits.append(_wait_of(message))
            later(waits[-1] + 0.001)
        if len(waits) == 9:  # on to the day's last minutes
            left = message.received_at + DAY - database_now()
            later(left.total_seconds() - 150)

    # Then each wait was its class's, but for a tenth, and none went beyond the day
    for n, wait in enumerate(waits, start=1):
        assert wait == pytest.approx(SECONDS[retry_class](n), rel=0.11, abs=1)
    assert len(scripted.calls) == len(waits) + 1 >= 10
    assert database_now() <= message.received_at + DAY
    assert (message.status, message.reason) == ("failed", "quota_exhausted")
    assert statuses(message) == {A: "failed"}
    assert events_of(message) == ["message.failed"]
    assert not Hold.objects.exists()
    assert Thread.objects.get().lock_owner is None
    assert_units_add_up(message)
    # and it is over
    work(message.public_id, scripted)
    assert len(scripted.calls) == len(waits) + 1
