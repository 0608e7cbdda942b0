"""Children in the foreground: started, watched, started again, ended together.

Every child leads a session of its own, so that a terminal's Ctrl-C reaches only the
supervisor, and so that all a child has started can be ended with it.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

CHILD: Final = Path(__file__).with_name("child.py")
FIRST_BACKOFF: Final = 0.2
LAST_BACKOFF: Final = 10.0
STEADY_SECONDS: Final = 30.0
"""A child that ran this long starts its back-off anew."""

POLL_SECONDS: Final = 0.05


class StartFailed(Exception):
    """A child ended, or did not become ready, while all were being started."""


@dataclass(frozen=True, slots=True)
class Program:
    """What to run. ``log`` takes its output; None lets it write to ours.

    ``announces`` programs write a byte to the pipe named in ``PM_READY_FD`` when they
    are ready; the others are asked by ``is_ready``.
    """

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    folder: Path
    log: Path | None = None
    announces: bool = False
    is_ready: Callable[[], bool] = lambda: True


@dataclass
class Child:
    """A program and its present process."""

    program: Program
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    backoff: float = FIRST_BACKOFF
    start_at: float = 0.0
    pipe: int | None = None
    is_ready: bool = False

    def start(self) -> None:
        """Start the process. Call it from a thread that lives as long as we do.

        The kernel's parent-death signal follows the thread that forked.
        """
        self.is_ready = False
        environment = dict(self.program.environment)
        with contextlib.ExitStack() as stack:
            writing = self._open_pipe(environment)
            for number in writing:
                stack.callback(os.close, number)
            output = None
            if self.program.log is not None:
                self.program.log.parent.mkdir(parents=True, exist_ok=True)
                output = stack.enter_context(self.program.log.open("ab"))
            self.process = subprocess.Popen(  # noqa: S603  our own command, no shell
                [sys.executable, "-IS", CHILD, str(os.getpid()), *self.program.command],
                env=environment,
                cwd=self.program.folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT if output else None,
                start_new_session=True,
                pass_fds=writing,
            )
        self.started = time.monotonic()

    def _open_pipe(self, environment: dict[str, str]) -> tuple[int, ...]:
        self._close_pipe()
        if not self.program.announces:
            return ()
        self.pipe, writing = os.pipe()
        os.set_blocking(self.pipe, False)
        environment["PM_READY_FD"] = str(writing)
        return (writing,)

    def _close_pipe(self) -> None:
        if self.pipe is not None:
            os.close(self.pipe)
            self.pipe = None

    def look(self) -> bool:
        """Tell whether it is ready; asks at most once for each start."""
        if self.process is None or self.is_ready:
            return self.is_ready
        if self.pipe is not None:
            with contextlib.suppress(BlockingIOError):
                self.is_ready = os.read(self.pipe, 1) != b""
        else:
            self.is_ready = self.program.is_ready()
        if self.is_ready:
            self._close_pipe()
        return self.is_ready

    def has_ended(self) -> bool:
        """Tell whether the process has ended; it stays unreaped, so its group is ours.

        Until it is reaped no other process can get its number, and the group can be
        ended without hitting a stranger.
        """
        if self.process is None or self.process.returncode is not None:
            return True
        found = os.waitid(
            os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT
        )
        return found is not None

    def end_group(self) -> int:
        """SIGKILL what is left of the group, reap, and return the exit status."""
        assert self.process is not None  # noqa: S101  only asked of a started child
        if self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self._close_pipe()
        status: int = self.process.returncode
        self.process = None
        return status

    def ask_to_end(self) -> None:
        """SIGTERM to the child alone; what it started is its own to end."""
        if self.process is not None and not self.has_ended():
            # not Popen's own method, which would reap and give the number away
            os.kill(self.process.pid, signal.SIGTERM)


@dataclass
class Supervisor:
    """Keeps programs running until it is told to end them. ``say`` gets its lines."""

    say: Callable[[str], None]
    children: list[Child] = field(default_factory=list)
    is_hurried: bool = False

    def start(self, programs: Sequence[Program], *, seconds: float = 30.0) -> None:
        """Start the programs and wait until all are ready; raises StartFailed."""
        begun = [Child(program) for program in programs]
        self.children += begun
        for child in begun:
            child.start()
        deadline = time.monotonic() + seconds
        while late := [child.program.name for child in begun if not child.look()]:
            for child in begun:
                if child.has_ended():
                    raise StartFailed(_last_words(child))
            if time.monotonic() > deadline:
                raise StartFailed(f"not ready after {seconds:.0f} s: {', '.join(late)}")
            time.sleep(POLL_SECONDS)

    def watch(self) -> None:
        """Start again what has ended, after its back-off. Call it again and again."""
        now = time.monotonic()
        for child in self.children:
            if child.process is None:
                if now >= child.start_at:
                    self._start_again(child, now)
            elif child.has_ended():
                self._bury(child, now)

    def _start_again(self, child: Child, now: float) -> None:
        """Start it; a machine that is short of something ends none of the others."""
        try:
            child.start()
        except (OSError, subprocess.SubprocessError) as error:
            self._wait_for(child, f"could not start ({error})", now)

    def _bury(self, child: Child, now: float) -> None:
        if now - child.started >= STEADY_SECONDS:
            child.backoff = FIRST_BACKOFF
        self._wait_for(child, f"ended ({_status(child.end_group())})", now)

    def _wait_for(self, child: Child, what: str, now: float) -> None:
        child.start_at = now + child.backoff
        self.say(
            f"{child.program.name} {what}; starting it again in {child.backoff:.1f} s"
        )
        child.backoff = min(child.backoff * 2, LAST_BACKOFF)

    def stop(self, *, seconds: float) -> None:
        """End all: SIGTERM, ``seconds`` of grace, SIGKILL; nothing stays behind.

        Setting ``is_hurried`` meanwhile ends the grace at once.
        """
        running = [child for child in self.children if child.process is not None]
        for child in running:
            child.ask_to_end()
        deadline = time.monotonic() + seconds
        while not all(child.has_ended() for child in running):
            if self.is_hurried or time.monotonic() > deadline:
                break
            time.sleep(POLL_SECONDS)
        for child in running:
            child.end_group()
        self.children.clear()


def _status(status: int) -> str:
    if status < 0:
        return signal.Signals(-status).name
    return f"exit status {status}"


def _last_words(child: Child) -> str:
    name, log = child.program.name, child.program.log
    if log is None:
        return f"{name} ended while it started"
    lines = log.read_text(errors="replace").strip().splitlines()
    last = lines[-1] if lines else "it said nothing"
    return f"{name} ended while it started: {last} (all of it: {log})"
