"""The supervisor: children are started again, and none outlives the end."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pylota.supervisor import Program, StartFailed, Supervisor
from tests.support.processes import until

READY = "import os; os.write(int(os.environ['PM_READY_FD']), b'1')"
IDLE = f"{READY}; import time; time.sleep(60)"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {IDLE}"
# what granian does: a main process with a child that would live on without it
NESTED = (
    "import os, subprocess, sys;"
    "inner = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']);"
    "open('inner', 'w').write(str(inner.pid));"
    f"{IDLE}"
)


class Lines(list[str]):
    """What the supervisor said."""


@pytest.fixture
def lines() -> Lines:
    return Lines()


@pytest.fixture
def supervisor(lines: Lines) -> Iterator[Supervisor]:
    found = Supervisor(lines.append)
    yield found
    found.stop(seconds=0)


def program(folder: Path, code: str, *, announces: bool = True) -> Program:
    return Program(
        name="child",
        command=[sys.executable, "-c", code],
        environment={"PATH": os.environ["PATH"]},
        folder=folder,
        log=folder / "log" / "child.log",
        announces=announces,
    )


def pid_of(supervisor: Supervisor) -> int:
    process = supervisor.children[0].process
    assert process is not None
    return process.pid


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_a_child_leads_its_own_session_and_has_no_input(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    supervisor.start([program(tmp_path, IDLE)])

    pid = pid_of(supervisor)
    assert os.getsid(pid) == os.getpgid(pid) == pid
    assert Path(f"/proc/{pid}/fd/0").readlink() == Path("/dev/null")


def test_a_child_that_dies_is_started_again_with_a_line_that_says_so(
    supervisor: Supervisor, lines: Lines, tmp_path: Path
) -> None:
    # Given a child that was killed
    supervisor.start([program(tmp_path, IDLE)])
    first = pid_of(supervisor)
    os.kill(first, signal.SIGKILL)

    # When the supervisor watches
    def is_back() -> bool:
        supervisor.watch()
        child = supervisor.children[0]
        return bool(lines) and child.process is not None and child.look()

    until(is_back, what="the second start")

    # Then another process runs
    assert pid_of(supervisor) != first
    assert lines == ["child ended (SIGKILL); starting it again in 0.2 s"]


def test_a_start_that_fails_is_tried_again_and_ends_no_other_child(
    supervisor: Supervisor, lines: Lines, tmp_path: Path
) -> None:
    # Given a child that died, and no way to open its log
    supervisor.start([program(tmp_path, IDLE)])
    log = supervisor.children[0].program.log
    assert log is not None
    log.unlink()
    log.mkdir()
    os.kill(pid_of(supervisor), signal.SIGKILL)

    def has_failed_twice() -> bool:
        supervisor.watch()
        return len(lines) >= 3

    before = len(os.listdir("/proc/self/fd"))
    until(has_failed_twice, what="two starts that fail")
    assert "could not start" in lines[1]
    assert "starting it again in 0.8 s" in lines[2]
    assert len(os.listdir("/proc/self/fd")) <= before + 1

    # When there is a way, then it is back
    log.rmdir()

    def is_back() -> bool:
        supervisor.watch()
        return supervisor.children[0].process is not None

    until(is_back, what="the start that succeeds")


def test_a_child_that_dies_at_once_is_started_less_and_less_often(
    supervisor: Supervisor, lines: Lines, tmp_path: Path
) -> None:
    supervisor.start([program(tmp_path, READY)])

    def has_ended_thrice() -> bool:
        supervisor.watch()
        return len(lines) >= 3

    until(has_ended_thrice, what="three ends")

    waits = [line.rpartition(" in ")[2] for line in lines]
    assert waits == ["0.2 s", "0.4 s", "0.8 s"]


def test_what_a_dead_child_left_behind_is_ended_before_the_restart(
    supervisor: Supervisor, lines: Lines, tmp_path: Path
) -> None:
    # Given a child whose own child would live on and hold its port
    supervisor.start([program(tmp_path, NESTED)])
    inner = int((tmp_path / "inner").read_text())
    assert is_running(inner)

    # When the child alone is killed
    os.kill(pid_of(supervisor), signal.SIGKILL)

    # Then its child goes with it
    def has_ended() -> bool:
        supervisor.watch()
        return bool(lines)

    until(has_ended, what="the end of the child")
    until(lambda: not is_running(inner), what="the end of the child's child")


def test_a_child_that_ends_while_it_starts_fails_the_start_with_its_last_words(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    with pytest.raises(StartFailed, match="child ended while it started: no such key"):
        supervisor.start([program(tmp_path, "raise SystemExit('no such key')")])


def test_a_child_that_never_becomes_ready_fails_the_start(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    silent = "import time; time.sleep(60)"

    with pytest.raises(StartFailed, match="not ready after 0 s: child"):
        supervisor.start([program(tmp_path, silent)], seconds=0.3)


def test_a_stop_lets_a_child_end_by_itself(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    polite = (
        "import signal, sys, time;"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(print('goodbye')));"
        f"{IDLE}"
    )
    supervisor.start([program(tmp_path, polite)])

    supervisor.stop(seconds=8)

    assert (tmp_path / "log" / "child.log").read_text() == "goodbye\n"


def test_a_stop_kills_a_stubborn_child_after_its_grace(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    supervisor.start([program(tmp_path, STUBBORN)])
    pid = pid_of(supervisor)

    began = time.monotonic()
    supervisor.stop(seconds=0.5)

    assert 0.5 <= time.monotonic() - began < 2
    assert not is_running(pid)


def test_a_hurried_stop_waits_for_nobody(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    supervisor.start([program(tmp_path, STUBBORN)])
    pid = pid_of(supervisor)

    began = time.monotonic()
    supervisor.is_hurried = True
    supervisor.stop(seconds=60)

    assert time.monotonic() - began < 2
    assert not is_running(pid)


def test_a_child_of_a_supervisor_that_has_gone_does_not_start(tmp_path: Path) -> None:
    # Given the number of a process that is not our parent
    from pylota.supervisor import CHILD

    command = [sys.executable, "-IS", str(CHILD), "1", "/bin/echo", "started"]
    reading, writing = os.pipe()
    pid = os.posix_spawn(
        sys.executable,
        command,
        {},
        file_actions=[(os.POSIX_SPAWN_DUP2, writing, 1)],
    )
    os.close(writing)
    _, status = os.waitpid(pid, 0)

    # Then nothing was run
    assert os.waitstatus_to_exitcode(status) == 1
    assert os.read(reading, 10) == b""
    os.close(reading)
