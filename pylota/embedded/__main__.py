"""``python -m pylota.embedded run [--fast] -- COMMAND``: a command with a database."""

import argparse
import os
import signal
import subprocess
import sys
from types import FrameType

from pylota.embedded.defaults import default_data_dir, tell
from pylota.embedded.errors import EmbeddedFailed
from pylota.embedded.server import ensure

_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Forwarder:
    """Hands this process's signals on to the command, also those that came early."""

    def __init__(self) -> None:
        """Take the signals over from here on."""
        self._command: subprocess.Popen[bytes] | None = None
        self._early: list[int] = []
        for signum in _FORWARDED:
            signal.signal(signum, self._receive)

    def attach(self, command: "subprocess.Popen[bytes]") -> None:
        """Name the command, which gets what has come so far."""
        self._command = command
        for signum in self._early:
            command.send_signal(signum)

    def _receive(self, signum: int, _frame: FrameType | None) -> None:
        if signum == signal.SIGINT and _at_a_terminal():
            return  # the terminal sends it to the command as well
        if self._command is None:
            self._early.append(signum)
        else:
            self._command.send_signal(signum)


def run(command: list[str], *, fast: bool) -> int:
    """Run the command with DATABASE_URL set, and return its exit status.

    With DATABASE_URL set already, the command takes this process's place. A command
    ended by a signal gives 128 and the signal's number.
    """
    if os.environ.get("DATABASE_URL"):
        os.execvp(command[0], command)
    folder = default_data_dir()
    server = ensure(folder, fast=fast, report=tell)
    environment = {
        **os.environ,
        "DATABASE_URL": server.url,
        "PM_DATA_DIR": str(folder),
    }
    forwarder = Forwarder()
    try:
        process = subprocess.Popen(command, env=environment)
        forwarder.attach(process)
        status = process.wait()
    finally:
        server.stop()
    return 128 - status if status < 0 else status


def main() -> int:
    """Read the command line, and run."""
    parser = argparse.ArgumentParser(prog="python -m pylota.embedded")
    verbs = parser.add_subparsers(required=True)
    verb = verbs.add_parser("run", help="run a command with the embedded PostgreSQL")
    verb.add_argument(
        "--fast", action="store_true", help="for tests: a cluster without fsync"
    )
    verb.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND")
    arguments = parser.parse_args()
    command = [part for part in arguments.command[:1] if part != "--"]
    command += arguments.command[1:]
    if not command:
        parser.error("name the command to run after --")
    try:
        return run(command, fast=arguments.fast)
    except EmbeddedFailed as error:
        tell(str(error))
        return 1
    except FileNotFoundError:
        tell(f"{command[0]} was not found. Check the command after --.")
        return 127


def _at_a_terminal() -> bool:
    try:
        return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except (OSError, ValueError):
        return False


if __name__ == "__main__":
    raise SystemExit(main())
