"""How ``manage.py up`` ends: by a signal, by force, or before it has begun."""

import os
import signal
import time

import pytest

from tests.support.processes import Processes, until
from tests.support.up import Up

STOP_SECONDS = 10.0


@pytest.fixture
def up(processes: Processes) -> Up:
    found = Up(processes)
    found.wait_until_it_serves()
    return found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_all_within_ten_seconds_and_leaves_no_process(
    up: Up, number: signal.Signals
) -> None:
    assert len(up.members()) >= 4  # up itself, web and its own worker, worker

    began = time.monotonic()
    up.running.signal(number)

    until(lambda: not up.running.is_alive, seconds=STOP_SECONDS, what="the end")
    assert time.monotonic() - began < STOP_SECONDS
    assert up.members() == {}
    assert up.running.process.returncode == 0
    assert up.output.endswith("stopped\n")


def test_a_child_that_will_not_end_is_killed_in_time(up: Up) -> None:
    # Given a worker that hears nothing
    os.kill(up.member("-m celery"), signal.SIGSTOP)

    began = time.monotonic()
    up.running.signal(signal.SIGTERM)

    until(lambda: not up.running.is_alive, seconds=STOP_SECONDS, what="the end")
    assert 7 < time.monotonic() - began < STOP_SECONDS
    assert up.members() == {}


def test_a_second_ctrl_c_waits_for_nobody(up: Up) -> None:
    # Given a worker that hears nothing
    os.kill(up.member("-m celery"), signal.SIGSTOP)

    # When Ctrl-C is pressed, and again half a second later
    up.running.signal(signal.SIGINT)
    time.sleep(0.5)
    up.running.signal(signal.SIGINT)

    until(lambda: not up.running.is_alive, seconds=4, what="the end at once")
    assert up.members() == {}


def test_a_signal_during_the_start_leaves_no_process(processes: Processes) -> None:
    up = Up(processes)
    until(lambda: "celery" in str(up.members()), what="the first child")

    up.running.signal(signal.SIGTERM)

    until(lambda: not up.running.is_alive, seconds=STOP_SECONDS, what="the end")
    assert up.members() == {}


def test_a_killed_supervisor_leaves_nothing_behind_and_its_folder_free(
    up: Up, processes: Processes
) -> None:
    up.running.signal(signal.SIGKILL)
    up.running.process.wait()

    until(lambda: not up.members(), seconds=STOP_SECONDS, what="the end of all")
    Up(processes).wait_until_it_serves()


def test_a_second_start_takes_less_than_three_seconds_to_serve(
    processes: Processes,
) -> None:
    # Given a deployment that has been started before, on a machine that may be busy
    # with other tests: one of three at least, each by the speed that we are left with
    took: list[float] = []
    while len(took) < 3 and min(took, default=3) >= 3:
        before = slowdown()
        up = Up(processes)
        until(lambda: "web, worker, beat" in up.output, seconds=60, what="the start")  # noqa: B023  asked at once
        seconds = time.monotonic() - up.began
        took.append(seconds / ((before + slowdown()) / 2))
        up.running.end()

    assert min(took) < 3


@pytest.mark.parametrize(
    ("environment", "line"),
    [
        ({"PM_WORKERS": 2}, "PM_WORKERS is 2, but memory:// lives inside one process"),
        ({"PM_WEB_THREADS": "many"}, "PM_WEB_THREADS must be a whole number"),
    ],
)
def test_a_wrong_setting_stops_the_start_and_names_itself(
    processes: Processes, environment: dict[str, object], line: str
) -> None:
    up = Up(processes, **environment)

    until(lambda: not up.running.is_alive, what="the end")

    assert up.running.process.returncode == 1
    assert line in up.output
    assert up.members() == {}


def test_a_database_session_that_breaks_promises_stops_the_start(
    processes: Processes,
) -> None:
    # Given a URL that replaces the session's settings
    url = processes.environment({})["DATABASE_URL"]
    up = Up(processes, DATABASE_URL=f"{url}?options=-c%20synchronous_commit%3Doff")

    until(lambda: not up.running.is_alive, what="the end")

    assert up.running.process.returncode == 1
    assert "synchronous_commit is off, must be on" in up.output
    assert "lock_timeout is 0, must be 5000" in up.output
    assert up.members() == {}


def slowdown() -> float:
    """Return how many times longer than its processor time work takes just now."""
    began, used = time.monotonic(), time.process_time()
    while time.process_time() - used < 0.3:
        pass
    return (time.monotonic() - began) / (time.process_time() - used)
