"""Calls that hang: callers go on, threads stay bounded."""

import subprocess
import sys
import threading
import time

import pytest

from core.patience import Impatient, TooSlow


@pytest.fixture
def stuck() -> threading.Event:
    return threading.Event()


def test_a_call_gives_back_what_it_returns_or_raises() -> None:
    patience = Impatient("test", threads=1)

    assert patience.run(lambda: 42, seconds=5) == 42
    with pytest.raises(KeyError, match="lost"):
        patience.run(lambda: dict[str, str]()["lost"], seconds=5)
    assert patience.run(lambda: 43, seconds=5) == 43


def test_a_time_out_of_the_call_itself_is_its_own() -> None:
    def times_out() -> None:
        raise TimeoutError("of the socket")

    with pytest.raises(TimeoutError, match="of the socket"):
        Impatient("test", threads=1).run(times_out, seconds=5)


def test_hung_calls_are_left_and_threads_stay_bounded(stuck: threading.Event) -> None:
    patience = Impatient("bounded", threads=3)
    ran = []

    # Given calls that hang, more of them than threads
    for _ in range(6):
        with pytest.raises(TooSlow):
            patience.run(stuck.wait, seconds=0.05)
    with pytest.raises(TooSlow):
        patience.run(lambda: ran.append("given up"), seconds=0.05)
    names = [t.name for t in threading.enumerate() if t.name.startswith("bounded")]
    assert len(names) == 3

    # When they end, then the threads serve again, but nothing that was given up
    stuck.set()
    assert patience.run(lambda: "served", seconds=5) == "served"
    assert ran == []


def test_one_hung_call_delays_no_other(stuck: threading.Event) -> None:
    patience = Impatient("test", threads=2)
    with pytest.raises(TooSlow):
        patience.run(stuck.wait, seconds=0.05)

    started = time.monotonic()
    assert [patience.run(lambda: n, seconds=5) for n in range(50)] == list(range(50))  # noqa: B023  called at once
    assert time.monotonic() - started < 2
    stuck.set()


def test_a_new_thread_is_made_while_the_others_are_busy(stuck: threading.Event) -> None:
    patience = Impatient("busy", threads=8)
    barrier = threading.Barrier(8)
    callers = [
        threading.Thread(
            target=patience.run, args=(barrier.wait,), kwargs={"seconds": 9}
        )
        for _ in range(8)
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(9)

    assert not barrier.broken
    names = [t.name for t in threading.enumerate() if t.name.startswith("busy-")]
    assert len(names) == 8
    stuck.set()


def test_a_forked_process_has_threads_of_its_own() -> None:
    code = """
import os, sys
from core.patience import Impatient
patience = Impatient("fork", threads=1)
assert patience.run(lambda: 1, seconds=5) == 1
child = os.fork()
if child == 0:
    os._exit(patience.run(lambda: 7, seconds=5))
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], timeout=30, check=False
    )
    assert done.returncode == 7


def test_a_thread_that_cannot_be_started_does_not_cost_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    patience = Impatient("test", threads=1)

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError):
            patience.run(lambda: 1, seconds=5)

    assert patience.run(lambda: 2, seconds=5) == 2
