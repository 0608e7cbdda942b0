"""The faulty SMTP server as a process of its own, and the other end of its wire.

``python -m tests.support.smtp_server --port 0 --script JSON`` prints one line of JSON
(``host port control ca``: the ports and the file of the authority's certificate), then
serves until told to stop, SIGTERM, or the end of its standard input (``--until-eof``).

On the control port each line is a JSON object, answered by one line::

    {"do": "script", "script": {...}}   behave by another script from now on
    {"do": "copies"}                    [[message id, recipient, count], ...]
    {"do": "mails"}                     envelopes, content in base64
    {"do": "connections"}               commands, plan, logins, whether it has ended
    {"do": "state"}                     counts: open most_open connections mails
    {"do": "stop"}                      the process ends
"""

import argparse
import json
import os
import signal
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading
import time
from base64 import b64encode
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.support.smtp_script import Script
from tests.support.smtp_server import SmtpServer

ROOT = Path(__file__).resolve().parents[2]


def _answer(server: SmtpServer, asked: dict[str, Any]) -> Any:
    with server.changed:
        match asked["do"]:
            case "script":
                server.follow(Script.parse(asked["script"]))
                return {}
            case "copies":
                return [[*key, n] for key, n in sorted(server.copies.items())]
            case "mails":
                return [
                    {
                        "connection": mail.connection,
                        "sender": mail.sender,
                        "parameters": mail.parameters,
                        "recipients": mail.recipients,
                        "message_id": mail.message_id,
                        "content": b64encode(mail.content).decode(),
                    }
                    for mail in server.mails
                ]
            case "connections":
                return [
                    {
                        "number": seen.number,
                        "peer": seen.peer[1],
                        "plan": seen.plan,
                        "commands": seen.commands,
                        "logins": seen.logins,
                        "ended": seen.ended is not None,
                    }
                    for seen in server.connections
                ]
            case "state":
                return {
                    "open": server.open_now,
                    "most_open": server.most_open,
                    "connections": len(server.connections),
                    "mails": len(server.mails),
                }
    raise ValueError(asked["do"])


def main() -> None:
    """Serve until told to stop."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--script", default="{}")
    parser.add_argument("--folder", type=Path, help="where ca.pem is written")
    parser.add_argument("--until-eof", action="store_true")
    given = parser.parse_args()
    done = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: done.set())
    folder = given.folder or Path(tempfile.mkdtemp(prefix="smtp-sink-"))
    with SmtpServer(Script.parse(json.loads(given.script)), port=given.port) as server:
        (folder / "ca.pem").write_text(server.ca)
        with _control(server, done) as control:
            listening = {
                "host": server.host,
                "port": server.port,
                "control": control.server_address[1],
                "ca": str(folder / "ca.pem"),
            }
            print(json.dumps(listening), flush=True)  # noqa: T201  the parent reads it
            if given.until_eof:
                threading.Thread(target=_until_eof, args=[done], daemon=True).start()
            done.wait()
            control.shutdown()


def _until_eof(done: threading.Event) -> None:
    while os.read(0, 4096):
        pass
    done.set()


def _control(
    server: SmtpServer, done: threading.Event
) -> socketserver.ThreadingTCPServer:
    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            for line in self.rfile:
                asked = json.loads(line)
                answer = {} if asked["do"] == "stop" else _answer(server, asked)
                self.wfile.write(json.dumps(answer).encode() + b"\n")
                if asked["do"] == "stop":
                    done.set()

    control = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
    control.daemon_threads = True
    threading.Thread(target=control.serve_forever, args=[0.05], daemon=True).start()
    return control


class RemoteServer:
    """The faulty server in its own process; a context manager, ready when entered."""

    def __init__(self, script: dict[str, Any] | None = None, *, port: int = 0) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="smtp-sink-")
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "tests.support.smtp_server", "--until-eof"),
                *("--port", str(port), "--script", json.dumps(script or {})),
                *("--folder", self._folder.name),
            ],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self.process.stdout is not None
        said = json.loads(self.process.stdout.readline())
        self.host: str = said["host"]
        self.port: int = said["port"]
        self.ca_file = Path(said["ca"])
        self._control = socket.create_connection(("127.0.0.1", said["control"]), 10)
        self._lines = self._control.makefile("rwb")

    @property
    def ca(self) -> str:
        """Return the PEM that a client must trust."""
        return self.ca_file.read_text()

    def ask(self, do: str, **more: Any) -> Any:
        """Ask the control port one thing."""
        self._lines.write(json.dumps({"do": do, **more}).encode() + b"\n")
        self._lines.flush()
        return json.loads(self._lines.readline())

    def follow(self, script: dict[str, Any]) -> None:
        """Behave by another script from the next connection on."""
        self.ask("script", script=script)

    def copies(self) -> dict[tuple[str, str], int]:
        """Return how often each (Message-ID, recipient) was taken."""
        return {(mid, address): n for mid, address, n in self.ask("copies")}

    def wait_until(self, true: Callable[[Self], bool], seconds: float = 10) -> None:
        """Return once something holds; raise AssertionError when it never does."""
        until = time.monotonic() + seconds
        while not true(self):
            if time.monotonic() > until:
                raise AssertionError(f"never held; state: {self.ask('state')}")
            time.sleep(0.02)

    def stop(self) -> None:
        """End the process and wait for it."""
        with suppress(OSError, ValueError):
            self.ask("stop")
        self._lines.close()
        self._control.close()
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self._folder.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
