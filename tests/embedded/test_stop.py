"""Stopping: who may, who must not, and what a process that ends leaves behind."""

import os
import signal
from pathlib import Path

import pytest

from pylota.embedded import locks
from tests.support.embedded_place import Place, is_alive, wait_until


def test_the_starter_may_leave_first(place: Place) -> None:
    starter, other = place.actor(), place.actor()
    pid = starter.listen()["pid"]
    other.listen()

    # When the one who started it ends, the other one's server goes on
    assert starter.leave() == 0
    assert other.query("SELECT 1") == [[1]]

    # Until that one ends too
    assert other.leave() == 0
    assert not is_alive(pid)


def test_a_killed_process_leaves_a_server_that_the_next_one_adopts_and_stops(
    place: Place,
) -> None:
    victim = place.actor()
    pid = victim.listen()["pid"]
    assert victim.kill() == -signal.SIGKILL
    assert is_alive(pid)

    heir = place.actor()
    answer = heir.listen()

    assert (answer["was_running"], answer["pid"]) == (True, pid)
    assert heir.ask("stop") == {"stopped": True}
    assert not is_alive(pid)


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_stops_the_server_and_then_the_process(
    place: Place, signum: signal.Signals
) -> None:
    actor = place.actor(connects=True)
    pid = actor.listen()["pid"]
    actor.ask("leave open", "SELECT 1")  # an idle client must not hold it up
    earlier = (place.base / "server.log").read_text()

    # The parent still sees which signal ended the process
    assert actor.kill(signum) == -signum
    assert not is_alive(pid)
    assert locks.is_free(place.base / "server.lock")
    told = (place.base / "server.log").read_text().removeprefix(earlier)
    assert "received fast shutdown request" in told
    assert "immediate" not in told


def test_a_forked_child_stops_nothing(place: Place) -> None:
    actor = place.actor()
    actor.listen()

    assert actor.ask("fork") == {"status": 0}

    assert actor.query("SELECT 1") == [[1]]


def test_a_forked_child_that_stays_keeps_no_lock(place: Place) -> None:
    # Given a child that outlives the stop of its parent
    actor = place.actor()
    actor.listen()
    child = actor.ask("fork and stay")["child"]
    try:
        assert actor.ask("stop") == {"stopped": True}

        # Then the next user starts and stops as if it were not there
        heir = place.actor()
        assert heir.listen()["was_running"] is False
        assert heir.ask("stop") == {"stopped": True}
        assert is_alive(child)
    finally:
        os.kill(child, signal.SIGKILL)


def test_stopping_twice_is_stopping_once(place: Place) -> None:
    actor = place.actor()
    actor.listen()

    assert actor.ask("stop") == {"stopped": True}
    assert actor.ask("stop") == {"stopped": False}


def test_a_process_whose_server_died_leaves_in_peace(place: Place) -> None:
    actor = place.actor()
    actor.listen()
    place.kill_servers()

    assert actor.leave() == 0


def test_a_frozen_server_is_stopped_all_the_same(place: Place) -> None:
    # Given a backend that does not answer the shutdown request
    actor = place.actor(connects=True, stop_seconds=0.3)
    pid = actor.listen()["pid"]
    actor.ask("leave open", "SELECT 1")
    frozen = [p for p in place.server_processes() if p != pid and _is_client(p)]
    assert frozen
    os.kill(frozen[0], signal.SIGSTOP)

    # Then it takes the immediate shutdown, and no process stays
    assert actor.ask("stop") == {"stopped": True}
    wait_until(lambda: place.server_processes() == [])


def _is_client(pid: int) -> bool:
    return b"postgres: app app" in Path(f"/proc/{pid}/cmdline").read_bytes()
