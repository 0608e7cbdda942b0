"""The threads of a worker: woken by the bell, and ended by nothing that breaks."""

import threading
import time
from collections.abc import Iterator

import pytest
from django.db import OperationalError, connection
from pytest_django import Settings
from structlog.testing import capture_logs

from outbound import bell, dispatch, dispatcher
from outbound.dispatcher import Alarm, Dispatcher
from tests.support.database import database_url
from tests.support.processes import until

pytestmark = pytest.mark.django_db(transaction=True)


class Looks:
    """Takes the place of the dispatcher's function and counts; may be told to fail."""

    def __init__(self) -> None:
        self.at: list[float] = []
        self.fails = 0

    def __call__(self) -> int:
        self.at.append(time.monotonic())
        if self.fails:
            self.fails -= 1
            raise OperationalError("planted")
        return 0


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Looks:
    found = Looks()
    monkeypatch.setattr(dispatch, "dispatch_due", found)
    return found


@pytest.fixture
def running(looks: Looks) -> Iterator[Dispatcher]:
    found = Dispatcher()
    found.start()
    until(lambda: len(looks.at) >= 2, what="a dispatcher that listens")
    yield found
    found.stop()


def test_it_looks_once_a_second_though_nobody_rings(
    running: Dispatcher, looks: Looks
) -> None:
    until(lambda: len(looks.at) >= 4, seconds=10, what="two looks more")

    assert 0.9 < looks.at[-1] - looks.at[-2] < 3


def test_it_looks_at_once_when_the_bell_rings(
    running: Dispatcher, looks: Looks
) -> None:
    # Given a dispatcher that has just begun to wait for a second
    waits = []
    for _ in range(5):
        seen = len(looks.at)
        until(lambda: len(looks.at) > seen, what="a look")  # noqa: B023  read at once
        began = time.monotonic()
        bell.ring()
        seen = len(looks.at)
        until(lambda: len(looks.at) > seen, what="a look")  # noqa: B023  read at once
        waits.append(looks.at[-1] - began)

    assert sorted(waits)[2] < 0.5


def test_a_look_that_fails_is_logged_by_name_and_repeated(
    looks: Looks, running: Dispatcher
) -> None:
    with capture_logs() as lines:
        looks.fails = 2
        seen = len(looks.at)
        until(lambda: len(looks.at) >= seen + 4, what="looks after the failures")

    assert running.is_alive()
    failed = [line for line in lines if line["event"] == "dispatcher_failed"]
    assert len(failed) == 2


def test_it_listens_again_after_its_session_was_killed(
    running: Dispatcher, looks: Looks
) -> None:
    # Given a dispatcher whose backends are all killed
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE query = %s AND pid <> pg_backend_pid()",
            [f"LISTEN {bell.CHANNEL}"],
        )
    seen = len(looks.at)
    until(lambda: len(looks.at) >= seen + 3, what="looks after the kill")

    # Then it hears the bell again
    assert running.is_alive()
    test_it_looks_at_once_when_the_bell_rings(running, looks)


def test_it_ends_soon_when_the_process_begins_to_end(
    looks: Looks, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = threading.Event()
    found = Dispatcher(at_end=ended.set)
    found.start()

    monkeypatch.setattr(dispatch.Closing, "is_set", True)

    assert ended.wait(timeout=5)
    found.join(timeout=5)
    assert not found.is_alive()


def test_it_listens_on_the_direct_connection_where_one_is_named(
    settings: Settings,
) -> None:
    settings.PM_LISTEN_DATABASE_URL = f"{database_url()}?application_name=direct"

    with dispatcher.listening_session() as session:
        name = session.execute("SHOW application_name").fetchone()

    assert name == ("direct",)


def test_an_alarm_that_breaks_runs_again(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.PM_ALARM_SECONDS = 0.05
    monkeypatch.setattr(dispatcher, "LOOK_SECONDS", 0.05)
    broken = Looks()
    broken.fails = 3
    found = Alarm("alarm", broken)

    found.start()
    until(lambda: len(broken.at) >= 6, what="six alarms, three of them broken")
    found.stop()

    assert not found.is_alive()


def test_an_alarm_may_wait_before_it_first_runs_and_can_be_ended_meanwhile(
    settings: Settings,
) -> None:
    settings.PM_ALARM_SECONDS = 0.05
    early, late = Looks(), Looks()
    alarms = [Alarm("early", early), Alarm("late", late, after=3600)]

    for alarm in alarms:
        alarm.start()
    until(lambda: len(early.at) >= 3, what="three looks of the one that does not wait")
    for alarm in alarms:
        alarm.stop()

    assert late.at == []
    assert not any(alarm.is_alive() for alarm in alarms)
