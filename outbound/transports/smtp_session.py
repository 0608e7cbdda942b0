"""One SMTP session: smtplib's commands, with replies and time-outs that can be trusted.

smtplib raises one exception for a drop before and after the final dot, takes half a
reply for a refusal, and starts its time-out anew with each octet. Here a reply counts
only when complete, each step has one end, and nothing is read off an exception's class.
"""

import re
import smtplib
import socket
import ssl
import struct
from collections.abc import Iterator
from contextlib import suppress

from core.deadline import Deadline
from core.elapsed import elapsed_clock
from outbound.transports.smtp_wire import Reply, in_base64, reply_text

REPLY_LINE = re.compile(rb"([2-5][0-9][0-9])(?:([ -])([^\r\n]*))?\r?\n")
LONGEST_REPLY = 65_536
CHUNK = 16_384
GOODBYE_SECONDS = 1.0
"""How long QUIT may take: nothing depends on its answer."""


class BadReply(OSError):
    """The server's answer is no SMTP reply."""


class Session(smtplib.SMTP):
    """A connection that the guard has opened; every step ends, or raises OSError.

    ``command_seconds`` is the time of one command with its reply; ``begin`` starts a
    step of another length. No step outlives the deadline of the call.
    """

    def __init__(
        self,
        sock: socket.socket,
        *,
        ehlo_name: str,
        command_seconds: float,
        deadline: Deadline,
    ) -> None:
        super().__init__(local_hostname=ehlo_name)
        self.sock: socket.socket = sock
        self._command_seconds = command_seconds
        self._deadline = deadline
        self._buffer = b""
        self._until = 0.0
        self._in_content = False
        self.begin(command_seconds)

    # --- time ------------------------------------------------------------------------

    def begin(self, seconds: float) -> None:
        """Start a step that ends after ``seconds``, or at the deadline of the call."""
        self._until = elapsed_clock() + min(seconds, self._deadline.left())

    def _arm(self) -> None:
        if (left := self._until - elapsed_clock()) <= 0:
            raise TimeoutError("the time for this step is over")
        self.sock.settimeout(left)

    # --- what smtplib's commands stand on --------------------------------------------

    def putcmd(self, cmd: str, args: str = "") -> None:
        """Write one command; it and its reply are one step.

        Raises BadReply when there is one before the command: it is not an answer to it.
        """
        if self._buffer:
            raise BadReply("the server spoke out of turn")
        self.begin(self._command_seconds)
        super().putcmd(cmd, args)

    def send(self, s: object) -> None:
        """Write octets; raises OSError (TimeoutError when the step is over)."""
        octets = s.encode("ascii") if isinstance(s, str) else s
        assert isinstance(octets, bytes)  # noqa: S101  smtplib sends these two only
        self._arm()
        self.sock.sendall(octets)

    def getreply(self) -> tuple[int, bytes]:
        """Read one complete reply; raises OSError when it does not come."""
        codes: set[int] = set()
        lines: list[bytes] = []
        for line in self._lines():
            parsed = REPLY_LINE.fullmatch(line)
            if parsed is None:
                raise BadReply("not an SMTP reply")
            codes.add(int(parsed[1]))
            lines.append((parsed[3] or b"").strip())
            if len(codes) > 1:
                raise BadReply("a reply with two codes")
            if parsed[2] != b"-":
                break
        return codes.pop(), b"\n".join(lines)

    def _lines(self) -> Iterator[bytes]:
        size = 0
        while True:
            while b"\n" not in self._buffer:
                if len(self._buffer) + size > LONGEST_REPLY:
                    raise BadReply("a reply without end")
                self._buffer += self._octets()
            line, newline, self._buffer = self._buffer.partition(b"\n")
            size += len(line)
            yield line + newline

    def _octets(self) -> bytes:
        self._arm()
        if octets := self.sock.recv(CHUNK):
            return octets
        raise ConnectionError("the connection was closed")

    def close(self) -> None:
        """Close the connection; inside a content, so that the server must drop it."""
        if self._in_content:
            with suppress(OSError):  # gone already
                self.sock.setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
                )
        self.sock.close()

    # --- steps -----------------------------------------------------------------------

    def reply(self) -> Reply:
        """Read one reply of the step that has begun."""
        code, text = self.getreply()
        return Reply(code, reply_text(text.split(b"\n")))

    def command(self, verb: str, argument: str = "") -> Reply:
        """Write one command and read its reply."""
        self.putcmd(verb, argument)
        return self.reply()

    def greet(self) -> Reply:
        """Say EHLO and learn what the server offers."""
        code, text = self.ehlo()
        return Reply(code, reply_text(text.split(b"\n")))

    def log_in(self, username: str, password: str) -> Reply | None:
        """Log in by PLAIN, or by LOGIN when that is all there is; None: neither."""
        offered = self.esmtp_features.get("auth", "").upper().split()
        if "PLAIN" in offered:  # RFC 4616
            identity = in_base64(f"\0{username}\0{password}")
            return self.command("AUTH", f"PLAIN {identity}")
        if "LOGIN" not in offered:
            return None
        reply = self.command("AUTH", "LOGIN")
        for part in (username, password):
            if reply.code != 334:
                break
            reply = self.command(in_base64(part))
        return reply

    def secure(self, context: ssl.SSLContext, host: str) -> None:
        """Change to TLS, verified for the host; forget all that came in clear."""
        self._arm()
        self.sock.getpeername()  # a lost connection would be wrapped without handshake
        secured = context.wrap_socket(self.sock, server_hostname=host)
        self.sock = secured
        if secured.version() is None:
            raise ConnectionError("the server left before the TLS handshake")
        self._buffer = b""
        self.esmtp_features = {}

    def has_more_to_say(self) -> bool:
        """Say whether the server spoke, or left, without being asked."""
        if self._buffer:
            return True
        self.sock.settimeout(0)
        try:
            self._buffer = self.sock.recv(1)
        except (BlockingIOError, ssl.SSLWantReadError):
            return False
        return True

    def write_content(self, stuffed: bytes) -> None:
        """Write the content, all but the final dot; each chunk is a step."""
        self._in_content = True
        view = memoryview(stuffed)
        for start in range(0, len(view), CHUNK):
            self.begin(self._command_seconds)
            self.send(bytes(view[start : start + CHUNK]))

    def final_dot(self, seconds: float) -> Reply:
        """Write the final dot and read the reply to it, as one step."""
        self.begin(seconds)
        self._in_content = False
        self.send(b".\r\n")
        return self.reply()

    def leave(self, *verbs: str) -> None:
        """Say RSET or QUIT; whatever comes of it changes nothing."""
        with suppress(OSError):
            for verb in verbs:
                self.begin(GOODBYE_SECONDS)
                self.send(f"{verb}\r\n")
                self.getreply()
