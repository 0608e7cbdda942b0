"""One conversation of the faulty SMTP server, from accept to close."""

import os
import re
import select
import signal
import socket
import ssl
import struct
import time
from base64 import b64decode
from contextlib import suppress
from typing import TYPE_CHECKING

from tests.support.certificates import bad_context, good_context
from tests.support.peers import process_of_peer
from tests.support.smtp_script import Progress, Script, refuses
from tests.support.smtp_seen import Connection, Gone, Mail

if TYPE_CHECKING:
    from tests.support.smtp_server import SmtpServer

ADDRESS = re.compile(r"^(?:FROM|TO):\s*<([^>]*)>(.*)$", re.IGNORECASE)


class Conversation:
    """One connection, from accept to close."""

    def __init__(
        self,
        server: "SmtpServer",
        sock: socket.socket,
        seen: Connection,
        script: Script,
    ) -> None:
        self.server, self.sock, self.seen, self.script = server, sock, seen, script
        self.progress = Progress(seen.plan)
        self.buffer = b""
        self.secure = False
        self.sender = self.parameters = ""
        self.recipients: list[str] = []

    def run(self) -> None:
        try:
            self.sock.settimeout(0.1)
            self.act("connect")
            if self.script.tls == "implicit":
                self.handshake()
            self.answer("greeting", "220 relay.test ESMTP")
            while True:
                self.command(self.line())
        except (Gone, OSError):
            pass
        finally:
            self.sock.close()
            with self.server.changed:
                self.seen.ended = time.monotonic()
                self.server.open_now -= 1
                self.server.changed.notify_all()

    # --- octets ----------------------------------------------------------------------

    def handshake(self) -> None:
        kind = self.script.certificate
        context = good_context() if kind == "good" else bad_context(kind)
        self.sock.settimeout(10)
        self.sock = context.wrap_socket(self.sock, server_side=True)
        self.sock.settimeout(0.1)
        self.secure = True

    def more(self) -> bytes:
        while not self.server.stopping.is_set():
            try:
                octets = self.sock.recv(65536)
            except (TimeoutError, ssl.SSLWantReadError):
                continue
            if not octets:
                raise Gone
            with self.server.changed:
                kept = self.seen.secure if self.secure else self.seen.clear
                kept.extend(octets)
                self.server.changed.notify_all()
            return octets
        raise Gone

    def line(self) -> str:
        while b"\n" not in self.buffer:
            self.buffer += self.more()
        line, _, self.buffer = self.buffer.partition(b"\n")
        return line.rstrip(b"\r").decode("utf-8", "surrogateescape")

    def write(self, octets: bytes) -> None:
        self.sock.settimeout(10)
        self.sock.sendall(octets)
        self.sock.settimeout(0.1)

    # --- acts ------------------------------------------------------------------------

    def answer(self, stage: str, ordinary: str, address: str = "") -> str:
        """Do what is planned at this stage; return the reply that was given in full."""
        return self.perform(self.progress.acts(stage, address), ordinary)

    def perform(self, planned: list[str], ordinary: str) -> str:
        for act in planned:
            if reply := self.do(act, ordinary):
                return reply
        self.write(f"{ordinary}\r\n".encode())
        return ordinary

    def act(self, stage: str) -> None:
        """Do what is planned at a stage that has no reply of its own."""
        for act in self.progress.acts(stage):
            self.do(act, "250 half")

    def do(self, act: str, ordinary: str) -> str:
        name, _, argument = act.partition(":")
        match name:
            case "drop":
                raise Gone
            case "reset":
                linger = struct.pack("ii", 1, 0)
                self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                raise Gone
            case "half":
                self.write((argument or ordinary[: len(ordinary) // 2]).encode())
                raise Gone
            case "stuck":
                self.write((argument or ordinary[: len(ordinary) // 2]).encode())
                self.hang(600)
            case "hang":
                self.hang(float(argument or 600))
            case "drip":
                self.drip(ordinary)
            case "late":
                self.server.stopping.wait(float(argument))
            case "kill" | "freeze":
                self.signal(signal.SIGKILL if name == "kill" else signal.SIGSTOP)
            case "hook":
                self.server.hooks[argument](self.seen)
            case _:
                self.write(f"{act}\r\n".encode())
                return act
        return ""

    def hang(self, seconds: float) -> None:
        """Say and read nothing until the other side leaves."""
        until = time.monotonic() + seconds
        left = select.poll()
        left.register(self.sock, select.POLLRDHUP)
        while time.monotonic() < until and not self.server.stopping.is_set():
            if left.poll(100):
                break
        raise Gone

    def drip(self, ordinary: str) -> None:
        for octet in (ordinary + " " + "x" * 400 + "\r\n").encode():
            self.write(bytes([octet]))
            if self.server.stopping.wait(self.script.drip_seconds):
                break
        raise Gone

    def signal(self, number: int) -> None:
        with suppress(LookupError):
            os.kill(process_of_peer(self.seen.peer[1]), number)

    # --- the protocol ----------------------------------------------------------------

    def command(self, line: str) -> None:
        with self.server.changed:
            self.seen.commands.append((line, self.secure))
            self.server.changed.notify_all()
        verb, _, rest = line.partition(" ")
        match verb.upper():
            case "EHLO":
                self.answer("ehlo", self.greeting())
            case "STARTTLS":
                self.starttls()
            case "AUTH":
                self.login(rest)
            case "MAIL":
                self.mail(rest)
            case "RCPT":
                self.rcpt(rest)
            case "DATA":
                if self.answer("data", "354 go on").startswith("354"):
                    self.content()
            case "RSET":
                self.recipients = []
                self.write(b"250 2.0.0 ok\r\n")
            case "QUIT":
                self.answer("quit", "221 2.0.0 bye")
                raise Gone
            case _:
                self.write(b"500 5.5.2 unknown\r\n")

    def greeting(self) -> str:
        lines = ["relay.test", *self.script.extensions]
        if self.script.size is not None:
            lines.append(f"SIZE {self.script.size}")
        if self.script.tls == "starttls" and not self.secure:
            lines.append("STARTTLS")
        elif self.script.auth:
            lines.append("AUTH " + " ".join(self.script.auth))
        return "\r\n".join(
            [f"250-{line}" for line in lines[:-1]] + [f"250 {lines[-1]}"]
        )

    def starttls(self) -> None:
        ready = "220 2.0.0 ready"
        if self.script.injected:
            ready += "\r\n" + self.script.injected
        if self.answer("starttls", ready).startswith("220"):
            self.buffer = b""
            self.act("tls")
            self.handshake()

    def login(self, rest: str) -> None:
        if planned := self.progress.acts("auth"):
            self.perform(planned, "235 2.7.0 ok")
            return
        mechanism, _, initial = rest.partition(" ")
        if mechanism.upper() == "PLAIN":
            _, user, secret = b64decode(initial).decode().split("\0")
        else:
            self.write(b"334 VXNlcm5hbWU6\r\n")
            user = b64decode(self.line()).decode()
            self.write(b"334 UGFzc3dvcmQ6\r\n")
            secret = b64decode(self.line()).decode()
        self.seen.logins.append((user, secret))
        users = self.script.users
        known = users is None or users.get(user) == secret
        self.write(b"235 2.7.0 ok\r\n" if known else b"535 5.7.8 wrong\r\n")

    def mail(self, rest: str) -> None:
        found = ADDRESS.match(rest)
        if found is None:
            self.write(b"501 5.5.4 syntax\r\n")
            return
        self.sender, self.parameters, self.recipients = found[1], found[2].strip(), []
        self.answer("mail", "250 2.1.0 ok")

    def rcpt(self, rest: str) -> None:
        found = ADDRESS.match(rest)
        if found is None:
            self.write(b"501 5.5.4 syntax\r\n")
            return
        if self.answer("rcpt", "250 2.1.5 ok", found[1]).startswith("2"):
            self.recipients.append(found[1])

    def content(self) -> None:
        read = bytearray(b"\r\n" + (self.buffer or self.more()))
        self.act("body")
        while (end := read.find(b"\r\n.\r\n", max(0, len(read) - 70_000))) < 0:
            read += self.more()
        self.buffer = bytes(read[end + 5 :])
        mail = Mail(
            self.seen.number,
            self.sender,
            self.parameters,
            list(self.recipients),
            bytes(read[2 : end + 2]),
        )
        with self.server.changed:
            self.server.mails.append(mail)
            self.server.changed.notify_all()
        self.take(mail)

    def take(self, mail: Mail) -> None:
        """Count, then answer: the count stands even if no answer ever leaves."""
        planned = self.progress.acts("dot")
        if not refuses(planned):
            with self.server.changed:
                for address in mail.recipients:
                    self.server.copies[(mail.message_id, address)] += 1
                self.server.changed.notify_all()
        self.perform(planned, "250 2.0.0 queued")
