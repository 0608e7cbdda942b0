"""Row 13: a back-off that falls due as the message's 24 hours end."""

import random
from collections import Counter
from datetime import timedelta
from functools import partial

import pytest

from core import clock
from core.clock import database_now
from delivery.models import OutboundState
from mailboxes.models import Message
from outbound.alarms import sweep_claims
from outbound.transports.base import RetryClass, RetryLater
from tests.factories import AddressFactory
from tests.services.conftest import assert_units_add_up
from tests.support.bulk_queue import queue_in_bulk
from tests.support.racers import Racers
from tests.support.scripted import ScriptedTransport, work

pytestmark = pytest.mark.django_db(transaction=True)

WAIT = timedelta(seconds=60)
DAY = timedelta(hours=24)


def test_row_13_a_back_off_due_as_the_day_ends_is_sent_once_or_failed(
    racers: Racers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The retry lies from 50 ms after the end to 50 ms before it, without jitter."""
    monkeypatch.setattr(random, "uniform", lambda low, high: 0.0)
    identity = AddressFactory.create().identity
    ends: Counter[str] = Counter()
    for milliseconds in range(-50, 451, 25):  # the call itself takes some of them
        lies = timedelta(milliseconds=milliseconds)
        born = database_now() + WAIT - DAY + lies
        (id_,) = queue_in_bulk(identity, 1, due_at=born)
        transport = ScriptedTransport([RetryLater(RetryClass.RELAY, "451")])
        work(id_, transport)

        # When the retry and the alarms fire as it falls due
        state = OutboundState.objects.filter(message__public_id=id_).first()
        if state is not None:
            assert state.retry_at is not None
            assert state.retry_at <= born + DAY
            clock.offset += max(state.retry_at - database_now(), timedelta(0))
        racers.at_once([partial(work, id_, transport)] * 4 + [sweep_claims] * 2)

        # Then it was sent once, or it has failed and nothing was sent after the refusal
        message = Message.objects.get(public_id=id_)
        ends[message.status] += 1
        assert len(transport.calls) == (2 if message.status == "submitted" else 1)
        assert message.status == ("failed" if state is None else "submitted")
        assert_units_add_up(message)
        clock.offset = timedelta(0)
    assert set(ends) == {"failed", "submitted"}
    assert not OutboundState.objects.exists()
