"""A proxy before PostgreSQL that knows where a transaction ends.

It reads both directions of the protocol (PostgreSQL documentation, "Frontend/Backend
Protocol"), so that a test can cut a connection around one chosen ``COMMIT``: after the
server has carried it out and before the answer arrives, or before the server sees it.
"""

import re
import socket
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from urllib.parse import SplitResult, unquote, urlsplit

from tests.support.tcp_proxy import Link, TcpProxy

SSL_REQUEST = 80877103
GSS_REQUEST = 80877104
PATIENCE = 20.0
COMMIT = re.compile(r"\s*(COMMIT|END)\b(?!\s+PREPARED)", re.IGNORECASE)


class Fault(Enum):
    """What happens to the chosen COMMIT."""

    CUT_AFTER = "carried out, its answer lost"
    CUT_BEFORE = "lost on its way"
    HOLD = "held until released"


@dataclass
class Rule:
    """One fault, for the next ``times`` transactions that ran a statement of its kind.

    ``marker`` is searched in the text of each statement of the transaction;
    ``seconds`` is how long a held COMMIT waits at most.
    """

    fault: Fault
    marker: re.Pattern[str]
    times: int = 1
    seconds: float = PATIENCE
    fired: int = 0
    _change: threading.Condition = field(default_factory=threading.Condition)
    _released: threading.Event = field(default_factory=threading.Event)
    _taken: int = 0

    def take(self, statements: list[str]) -> bool:
        """Return whether this transaction is one that the rule is for."""
        with self._change:
            if self._taken >= self.times:
                return False
            if not any(self.marker.search(statement) for statement in statements):
                return False
            self._taken += 1
            return True

    def strike(self) -> None:
        """Count that the fault has taken its full effect."""
        with self._change:
            self.fired += 1
            self._change.notify_all()

    def wait(self, times: int = 1, *, seconds: float = PATIENCE) -> None:
        """Return once the fault has happened so often; raise TimeoutError if not."""
        with self._change:
            if not self._change.wait_for(lambda: self.fired >= times, seconds):
                raise TimeoutError(f"{self.fault.value}: {self.fired} of {times}")

    def release(self) -> None:
        """Let go of the held COMMITs, and hold no more of them."""
        self._released.set()

    def hold(self) -> None:
        """Stand still until released, or until the rule's time is over."""
        self.strike()
        self._released.wait(self.seconds)


def commands(kind: bytes, body: bytes, names: dict[str, dict[bytes, str]]) -> list[str]:
    """Return the statements that one client message runs; remember those it prepares.

    ``names`` holds the texts of prepared ``statements`` and bound ``portals``.
    """
    if kind == b"Q":
        return [part.strip() for part in _text(body).split(";") if part.strip()]
    first, _, rest = body.partition(b"\0")
    if kind == b"P":
        names["statements"][first] = _text(rest)
    elif kind == b"B":
        statement = rest.partition(b"\0")[0]
        names["portals"][first] = names["statements"].get(statement, "")
    elif kind == b"E":
        return [names["portals"].get(first, "")]
    return []


def _text(body: bytes) -> str:
    return body.partition(b"\0")[0].decode("utf-8", "replace")


class PgLink(Link):
    """A connection whose statements are read as they pass."""

    proxy: "PgProxy"

    def __init__(self, proxy: TcpProxy, client: socket.socket) -> None:
        super().__init__(proxy, client)
        self._up = b""
        self._down = b""
        self._started = False
        self._names: dict[str, dict[bytes, str]] = {"statements": {}, "portals": {}}
        self._transaction: list[str] = []
        self._losing: Rule | None = None

    def upward(self, octets: bytes) -> None:
        """Read the client's messages, and let the rules have their say at COMMIT."""
        self._up += octets
        while not self._started and self._up:
            if not self._startup():
                return
        for kind, message in self._messages("_up"):
            for statement in commands(kind, message[5:], self._names):
                if COMMIT.match(statement):
                    self._at_commit()
                self._transaction.append(statement)
            if self.closed:
                return
            self.send_up(message)

    def downward(self, octets: bytes) -> None:
        """Read the server's messages; forget the transaction when it is over."""
        self._down += octets
        for kind, message in self._messages("_down"):
            if kind == b"Z" and message[5:6] == b"I":
                self._transaction = []
            if (rule := self._losing) is None:
                self.send_down(message)
            elif kind == b"Z":
                self.close()
                rule.strike()
                return

    def _startup(self) -> bool:
        """Pass the first message on; refuse encryption, which would hide the rest."""
        if len(self._up) < 8:
            return False
        length, code = struct.unpack("!ii", self._up[:8])
        if len(self._up) < length:
            return False
        message, self._up = self._up[:length], self._up[length:]
        if code in (SSL_REQUEST, GSS_REQUEST):
            self.send_down(b"N")
        else:
            self._started = True
            self.send_up(message)
        return True

    def _messages(self, side: str) -> Iterator[tuple[bytes, bytes]]:
        while len(buffer := getattr(self, side)) >= 5:
            size = 1 + struct.unpack("!i", buffer[1:5])[0]
            if len(buffer) < size:
                return
            setattr(self, side, buffer[size:])
            yield buffer[:1], buffer[:size]

    def _at_commit(self) -> None:
        rule = self.proxy.rule_for(self._transaction)
        if rule is None:
            return
        if rule.fault is Fault.HOLD:
            rule.hold()
        elif rule.fault is Fault.CUT_BEFORE:
            self.close()
            rule.strike()
        else:
            self._losing = rule


class PgProxy(TcpProxy):
    """Stands before the server of a ``DATABASE_URL``; ``url`` leads through it.

    A restart of the database as clients see it is ``refuse()``, ``cut()``, ``admit()``.
    """

    link_type = PgLink

    def __init__(self, database_url: str) -> None:
        self._url: SplitResult = urlsplit(database_url)
        host, port = unquote(self._url.hostname or "127.0.0.1"), self._url.port or 5432
        super().__init__(
            f"{host}/.s.PGSQL.{port}" if host.startswith("/") else (host, port)
        )
        self._rules: list[Rule] = []

    @property
    def url(self) -> str:
        """Return the same database's URL, through this proxy."""
        user, at, _ = self._url.netloc.rpartition("@")
        netloc = f"{user}{at}127.0.0.1:{self.port}"
        return self._url._replace(netloc=netloc).geturl()

    def at_commit(
        self, fault: Fault, *, marker: str, times: int = 1, seconds: float = PATIENCE
    ) -> Rule:
        """Plant a fault at the COMMIT of transactions that ran such a statement.

        ``marker`` is a regular expression, searched without regard to case, e.g.
        ``insert into .?idempotency``.
        """
        rule = Rule(
            fault, re.compile(marker, re.IGNORECASE | re.DOTALL), times, seconds
        )
        self._rules.append(rule)
        return rule

    def rule_for(self, statements: list[str]) -> Rule | None:
        """Return the rule that wants this transaction, if one does."""
        return next((rule for rule in self._rules if rule.take(statements)), None)

    def forget_rules(self) -> None:
        """Lift all faults; held COMMITs go on."""
        rules, self._rules = self._rules, []
        for rule in rules:
            rule.release()
