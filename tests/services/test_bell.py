"""The bell: one notification for many rings, and never an error for the ringer."""

import os
import threading
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from django.db import connection
from structlog.testing import capture_logs

from core.database import session_parameters
from outbound import bell
from tests.support.processes import until

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def listening() -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(**session_parameters(), autocommit=True) as session:
        session.execute(f"LISTEN {bell.CHANNEL}")
        yield session


def heard(session: psycopg.Connection[Any], *, seconds: float = 2.0) -> int:
    return len(list(session.notifies(timeout=seconds, stop_after=1)))


def bell_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "bell"]


def test_a_ring_is_heard_by_whoever_listens(
    listening: psycopg.Connection[Any],
) -> None:
    bell.ring()

    assert heard(listening) == 1


def test_the_thread_starts_with_the_first_ring_and_stays_one() -> None:
    bell.stop()
    assert bell_threads() == []

    threads = [threading.Thread(target=bell.ring) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(bell_threads()) == 1


def test_rings_within_five_milliseconds_are_one_notification(
    listening: psycopg.Connection[Any],
) -> None:
    # Given 2,000 rings as fast as one thread can
    for _ in range(2000):
        bell.ring()

    # Then there is at least one notification, and a handful at most
    assert 1 <= heard(listening) + heard(listening, seconds=0.2) < 50


def test_a_bell_without_a_database_is_silent_and_rings_again_later(
    listening: psycopg.Connection[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given a database that cannot be reached
    bell.stop()
    monkeypatch.setitem(connection.settings_dict, "PORT", 1)

    # When the bell is rung, then nothing is raised, and the log names the failure only
    with capture_logs() as lines:
        bell.ring()
        until(lambda: lines, what="a line about the failed bell")
    assert [line["event"] for line in lines] == ["bell_failed"]

    # And with the database back the same thread is heard
    monkeypatch.undo()
    bell.ring()
    assert heard(listening) == 1


def test_a_killed_backend_costs_one_ring_only(
    listening: psycopg.Connection[Any],
) -> None:
    # Given a bell whose backend is killed after its first ring
    bell.ring()
    assert heard(listening) == 1
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE query = %s AND pid <> %s",
            [f"NOTIFY {bell.CHANNEL}", listening.info.backend_pid],
        )

    # When it rings on, then it is heard again
    bell.ring()
    heard(listening, seconds=0.2)
    bell.ring()
    assert heard(listening) == 1


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_child_rings_with_a_bell_of_its_own(
    listening: psycopg.Connection[Any],
) -> None:
    # Given a process that has rung
    bell.ring()
    assert heard(listening) == 1

    # When it forks, and the child rings
    child = os.fork()
    if child == 0:
        bell.ring()
        while not (threads := bell_threads()):
            pass
        threads[0].join(timeout=1)
        os._exit(0)
    os.waitpid(child, 0)

    # Then the child was heard, and the parent's bell still works
    assert heard(listening) == 1
    bell.ring()
    assert heard(listening) == 1
