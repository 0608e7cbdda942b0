"""The watchdog: a connection ends at its deadline, whatever its peer does."""

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from core import deadline as module
from core.deadline import Deadline
from tests.support.waiting import until

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """A connection: its own end, and the other one."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as ours,
        listener.accept()[0] as theirs,
    ):
        yield ours, theirs


Pair = tuple[socket.socket, socket.socket]


def test_a_read_that_would_never_end_ends_at_the_deadline(pair: Pair) -> None:
    ours, _ = pair
    started = time.monotonic()

    with Deadline(0.2).kept_on(ours):
        assert ours.recv(1) == b""

    assert 0.15 < time.monotonic() - started < 5


def test_a_write_that_nobody_reads_ends_at_the_deadline(pair: Pair) -> None:
    ours, _ = pair

    with Deadline(0.2).kept_on(ours), pytest.raises(OSError, match="Broken pipe"):
        ours.sendall(b"x" * 50_000_000)


def test_a_call_that_ended_before_is_left_alone(pair: Pair) -> None:
    # Given a connection that was watched for a moment only
    ours, theirs = pair
    deadline = Deadline(0.1)
    with deadline.kept_on(ours):
        pass

    # When its deadline passes while another one's is kept
    with Deadline(0.3).kept_on(theirs):
        until(lambda: deadline.has_passed)

        # Then it is open still
        ours.sendall(b"x")
        assert theirs.recv(1) == b"x"


def test_nothing_is_held_when_the_call_is_over(pair: Pair) -> None:
    ours, theirs = pair
    before = len(module._watchdog)
    with Deadline(30).kept_on(ours):
        assert len(module._watchdog) == before + 1
    assert len(module._watchdog) == before

    # the last handle closes the connection: the watchdog's copy is closed as well
    ours.close()
    assert theirs.recv(1) == b""


def test_a_shorter_deadline_that_comes_later_is_kept_first(pair: Pair) -> None:
    ours, theirs = pair
    with Deadline(30).kept_on(ours), Deadline(0.1).kept_on(theirs):
        started = time.monotonic()
        assert ours.recv(1) == b""

    assert time.monotonic() - started < 5


def test_a_hundred_deadlines_are_kept_by_one_thread() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=100) as listener:
        ended: list[bool] = []

        def call() -> None:
            sock = socket.create_connection(listener.getsockname())
            with sock, Deadline(0.3).kept_on(sock):
                ended.append(sock.recv(1) == b"")

        calls = [threading.Thread(target=call) for _ in range(100)]
        for thread in calls:
            thread.start()
        for thread in calls:
            thread.join(20)

    assert ended == [True] * 100
    assert sum(t.name == "deadlines" for t in threading.enumerate()) == 1


def test_the_time_left_is_never_negative() -> None:
    deadline = Deadline(-5)

    assert deadline.left() == 0.0
    assert deadline.has_passed


def test_a_forked_child_has_a_watchdog_of_its_own() -> None:
    # Given a process whose watchdog runs when it forks
    code = """
import os, socket
from core.deadline import Deadline
a, b = socket.socketpair()
with Deadline(30).kept_on(a):
    child = os.fork()
    if child == 0:
        c, d = socket.socketpair()
        with Deadline(0.1).kept_on(c):
            os._exit(0 if c.recv(1) == b"" else 1)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=20,
        check=True,
    )

    # Then the child's deadline is kept
    assert done.stdout == "0\n"


def test_without_a_thread_no_call_begins_and_the_next_one_is_kept(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, _ = pair
    monkeypatch.setattr(module, "_watchdog", module.Watchdog())

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(OSError, match="no thread"), Deadline(60).kept_on(ours):
            pytest.fail("the call began, and nobody kept its deadline")

    with Deadline(0.2).kept_on(ours):
        assert ours.recv(1) == b""
