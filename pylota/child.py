"""Become a supervised process: one that does not outlive its supervisor.

Run as a script: ``child.py SUPERVISOR_PID COMMAND …``. It stands between the fork and
the program because nothing of Python's may run between fork and exec in a process that
has threads.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def die_with_the_parent() -> None:
    """Have the kernel send SIGTERM to this process when its parent ends (Linux).

    SIGKILL would leave granian's own workers behind; SIGTERM lets them be ended.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def main() -> None:
    """Bind this process to its supervisor, then be the program."""
    supervisor, *command = sys.argv[1:]
    die_with_the_parent()
    if os.getppid() != int(supervisor):
        sys.exit("the supervisor has gone")  # it went before the kernel was asked
    os.execvp(command[0], command)  # noqa: S606  no shell: the supervisor's own list


if __name__ == "__main__":
    main()
