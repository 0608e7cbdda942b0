"""R38: the claim alarm stands still while the worker records; the outcome stands."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from core import clock
from core.database import fetch_one
from core.sweeps import one_by_one
from mailboxes.models import Event, Message
from outbound import alarms, claims
from outbound.claims import Claim
from outbound.settling import lapse
from tests.factories import QueuedMessageFactory
from tests.services.conftest import assert_units_add_up
from tests.support.scripted import accepted

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def overdue(transactional_db: None) -> Claim:
    """A claim that has just run out, and whose worker lives."""
    claim = claims.claim(QueuedMessageFactory.create().public_id)
    assert claim is not None
    clock.offset += timedelta(seconds=301)
    return claim


def record(claim: Claim) -> None:
    claims.record(claim, accepted(claim.outgoing))


def sent(message_id: str) -> Message:
    message = Message.objects.get(public_id=message_id)
    assert message.status == "submitted"
    assert_units_add_up(message)
    told = Event.objects.filter(payload__data__message__id=message_id)
    assert set(told.values_list("type", flat=True)) <= {"message.sent"}
    return message


def test_r38_recorded_after_the_alarm_has_listed_it(
    overdue: Claim, monkeypatch: pytest.MonkeyPatch
) -> None:
    def held(name: str, rows: list[Any], act: Callable[[Any], bool]) -> int:
        assert rows == [overdue.message_id]
        record(overdue)
        return one_by_one(name, rows, act)

    monkeypatch.setattr(alarms, "one_by_one", held)

    assert alarms.sweep_claims() == 0
    assert sent(overdue.message_id).flags == []


def waits_for_a_lock() -> bool:
    fetch_one("SELECT pg_stat_clear_snapshot()")  # or a transaction sees the first look
    row = fetch_one(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        " AND wait_event_type = 'Lock'"
    )
    return row is not None and row[0] > 0


def test_r38_recorded_while_the_alarm_holds_the_row(
    overdue: Claim, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record waits for the alarm, then settles what the alarm left in doubt."""

    def in_a_thread() -> None:
        try:
            record(overdue)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        recording: list[Any] = []

        def held(*args: Any, **kwargs: Any) -> None:
            recording.append(pool.submit(in_a_thread))
            ends = time.monotonic() + 4
            while not waits_for_a_lock() and time.monotonic() < ends:
                time.sleep(0.01)
            assert waits_for_a_lock()
            lapse(*args, **kwargs)

        monkeypatch.setattr(alarms, "lapse", held)

        assert alarms.sweep_claims() == 1
        recording[0].result(20)

    assert sent(overdue.message_id).flags == ["reconciled"]
