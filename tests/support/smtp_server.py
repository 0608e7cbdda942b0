"""A real SMTP server that fails on request, keeps every octet and counts copies.

Over real TLS, with certificates of our own. The script's language is in
``smtp_script.py``. A copy is counted when the server has read the final dot, before it
answers, unless it then answers 4yz or 5yz: from that moment it may deliver the mail.
"""

import socket
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Self

from tests.support.certificates import authority
from tests.support.smtp_conversation import Conversation
from tests.support.smtp_script import Script
from tests.support.smtp_seen import Connection as Connection
from tests.support.smtp_seen import Mail as Mail

Hook = Callable[[Connection], None]


class SmtpServer:
    """The server; a context manager. Everything it saw is on its attributes.

    ``connections`` and ``mails`` grow while it runs; ``copies`` counts per (Message-ID,
    recipient); ``most_open`` is the largest number of connections at one time.
    """

    def __init__(
        self,
        script: Script | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        hooks: Mapping[str, Hook] | None = None,
    ) -> None:
        self.script = script or Script()
        self.hooks = dict(hooks or {})
        self.connections: list[Connection] = []
        self.mails: list[Mail] = []
        self.copies: Counter[tuple[str, str]] = Counter()
        self.open_now = self.most_open = self._planned = 0
        self.stopping = threading.Event()
        self.changed = threading.Condition()
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server((host, port), backlog=200)
        # small, so that a client with much to say soon has to wait for its reader
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32_768)
        self.host, self.port = self._listener.getsockname()[:2]
        self._acceptor = threading.Thread(target=self._accept, daemon=True)
        self._acceptor.start()

    @property
    def ca(self) -> str:
        """Return the PEM that a client must trust."""
        return authority().pem

    def follow(self, script: Script) -> None:
        """Behave by another script from the next connection on."""
        with self.changed:
            self.script, self._planned = script, 0

    def wait_until(self, true: Callable[[], bool], seconds: float = 10) -> None:
        """Return once something holds; raise AssertionError when it never does."""
        with self.changed:
            if not self.changed.wait_for(true, seconds):
                raise AssertionError("the server never saw it")

    def stop(self) -> None:
        """Close everything and end every thread."""
        self.stopping.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._acceptor.join(10)
        self._listener.close()
        for thread in self._threads:
            thread.join(10)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _accept(self) -> None:
        while not self.stopping.is_set():
            try:
                sock, peer = self._listener.accept()
            except OSError:
                return
            with self.changed:
                plans = self.script.connections
                spent = self._planned >= len(plans)
                plan = self.script.always if spent else plans[self._planned]
                self._planned += 1
                seen = Connection(len(self.connections), peer[:2], dict(plan))
                self.connections.append(seen)
                self.open_now += 1
                self.most_open = max(self.most_open, self.open_now)
                session = Conversation(self, sock, seen, self.script)
                self.changed.notify_all()
            thread = threading.Thread(target=session.run, daemon=True)
            self._threads.append(thread)
            thread.start()


if __name__ == "__main__":
    from tests.support.smtp_control import main

    main()
