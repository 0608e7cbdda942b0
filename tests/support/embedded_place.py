"""Places for the tests of the embedded server: a person, a folder, their processes."""

import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from pylota.embedded import processes
from pylota.embedded.accounts import Account, as_account, server_account
from pylota.embedded.binaries import SETTING

ROOT = Path(__file__).resolve().parents[2]
# What this process can play: root can be both, a user only itself.
PEOPLE = ("root", "ordinary user") if os.geteuid() == 0 else ("ordinary user",)


def account_of(person: str) -> Account:
    """Return the account that plays the person."""
    is_other = os.geteuid() == 0 and person != "root"
    entry = pwd.getpwnam("nobody") if is_other else pwd.getpwuid(os.geteuid())
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)


def wait_until(condition: Callable[[], bool], *, seconds: float = 20) -> None:
    """Poll until the condition holds; fail when it does not in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.005)


def is_alive(pid: int) -> bool:
    """Say whether a process exists and is no zombie."""
    return not processes.wait_until_gone([pid], seconds=0)


def _with_root() -> str:
    """Return the search path with the project first, for any working folder."""
    return os.pathsep.join([str(ROOT), *os.environ.get("PYTHONPATH", "").split(":")])


class Actor:
    """One running ``embedded_actor``."""

    def __init__(
        self,
        account: Account,
        job: dict[str, Any],
        environment: dict[str, str],
        cwd: Path,
    ) -> None:
        self.account = account
        self.url = ""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.embedded_actor", json.dumps(job)],
            env={**os.environ, "PYTHONPATH": _with_root(), **environment},
            cwd=cwd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def listen(self) -> dict[str, Any]:
        """Return the next answer."""
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line and self.process.stderr:
            raise AssertionError(self.process.stderr.read())
        answer: dict[str, Any] = json.loads(line)
        self.url = answer.get("url", self.url)
        return answer

    def ask(self, do: str, sql: str = "") -> dict[str, Any]:
        """Have one thing done."""
        assert self.process.stdin
        self.process.stdin.write(json.dumps({"do": do, "sql": sql}) + "\n")
        self.process.stdin.flush()
        return self.listen()

    def query(self, sql: str) -> list[list[Any]]:
        """Return the rows of a statement, run and committed as the actor's user."""

        def work() -> str:
            try:
                with psycopg.connect(self.url) as connection:
                    cursor = connection.execute(sql.encode())
                    return json.dumps(cursor.fetchall() if cursor.description else [])
            except psycopg.Error as error:
                return json.dumps(str(error))

        answer = json.loads(as_account(self.account, work))
        assert isinstance(answer, list), answer
        return answer

    def leave(self) -> int:
        """End of input: the process ends by itself; return its status."""
        return self._closed()

    def kill(self, signum: int = signal.SIGKILL) -> int:
        """Send a signal and return the status."""
        self.process.send_signal(signum)
        return self._closed()

    def _closed(self) -> int:
        self.process.communicate(timeout=30)
        return self.process.returncode


@dataclass
class Place:
    """A folder of one person, with the servers and processes started in it."""

    folder: Path
    account: Account
    install: Path
    fast: bool = False
    actors: list[Actor] = field(default_factory=list)

    @property
    def data_dir(self) -> Path:
        """The usual data folder."""
        return self.folder / "var"

    @property
    def base(self) -> Path:
        """The usual cluster's folder."""
        return self.data_dir / self._cluster

    @property
    def _cluster(self) -> str:
        return "postgres-test" if self.fast else "postgres"

    @property
    def server_user(self) -> Account:
        """Who runs the server here."""
        if self.account.uid == 0:
            return server_account(self.base / "data")
        return self.account

    def end_processes(self) -> None:
        """Kill what still runs here: actors first, then servers."""
        for actor in self.actors:
            if actor.process.returncode is None:
                actor.kill()
        self.actors.clear()
        for data in self.folder.glob("*/*/data"):
            self.kill_servers(data)

    def remove(self) -> None:
        """End everything, and delete the place."""
        self.end_processes()
        shutil.rmtree(self.folder)

    def give(self, path: Path) -> None:
        """Make the person the owner of a path."""
        os.chown(path, self.account.uid, self.account.gid)

    def make(self, name: str) -> Path:
        """Make a folder of the person."""
        path = self.folder / name
        path.mkdir(mode=0o755)
        self.give(path)
        return path

    def actor(
        self,
        data_dir: Path | None = None,
        *,
        connects: bool = False,
        server_users: tuple[str, ...] = (),
        leftover_seconds: float = 3,
        stop_seconds: float = 4,
        environment: dict[str, str] | None = None,
        account: Account | None = None,
        cwd: Path = ROOT,
    ) -> Actor:
        """Start a process of the person that calls ``ensure``."""
        who = account or self.account
        job = {
            "data_dir": str(data_dir or self.data_dir),
            "uid": who.uid,
            "gid": who.gid,
            "server_users": server_users,
            "connects": connects,
            "fast": self.fast,
            "leftover_seconds": leftover_seconds,
            "stop_seconds": stop_seconds,
        }
        actor = Actor(
            who, job, {SETTING: str(self.install), **(environment or {})}, cwd
        )
        self.actors.append(actor)
        return actor

    def refusal(self, data_dir: Path | None = None, **options: Any) -> str:
        """Return the one line with which ``ensure`` refuses."""
        actor = self.actor(data_dir, **options)
        line: str = actor.listen()["failed"]
        assert actor.leave() == 3
        assert "\n" not in line
        return line

    def empty_cluster(self) -> Path:
        """Put a data folder there that holds only its version; return the base."""
        base = self._make_base(self.data_dir)
        user = self.server_user
        data = base / "data"
        data.mkdir(mode=0o700)
        (data / "PG_VERSION").write_text("18\n")
        for path in (data, data / "PG_VERSION"):
            os.chown(path, user.uid, user.gid)
        return base

    def copy_cluster(self, source: Path, data_dir: Path) -> Path:
        """Put a copy of a cluster there, which is faster than ``initdb``."""
        base = self._make_base(data_dir)
        for part in source.iterdir():
            how = "-al" if part.name.startswith("pg-") else "-a"
            subprocess.run(["cp", how, str(part), str(base)], check=True)
        return base

    def _make_base(self, data_dir: Path) -> Path:
        base = data_dir / self._cluster
        base.mkdir(parents=True)
        base.chmod(0o711 if self.account.uid == 0 else 0o700)
        for folder in (data_dir, base):
            self.give(folder)
        return base

    def server_processes(self, data: Path | None = None) -> list[int]:
        """Return every server process at work in a data folder, deleted or not."""
        return processes.processes_in(data or self.base / "data", self.server_user)

    def kill_servers(self, data: Path | None = None) -> None:
        """SIGKILL every server process of a data folder."""
        pids = self.server_processes(data)
        for pid in pids:
            processes.send(pid, signal.SIGKILL)
        assert processes.wait_until_gone(pids, seconds=10)
