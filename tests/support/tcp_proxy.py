"""A TCP proxy that misbehaves on command: before a broker, a relay or a database.

It passes octets on until a test tells it to freeze, drip, delay, cut or refuse. Each
connection is a ``Link`` with two threads, so one that stands still holds up no other.
"""

import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

CHUNK = 65536
RESET = struct.pack("ii", 1, 0)


class Link:
    """One client's connection and the connection to the server made for it."""

    def __init__(self, proxy: "TcpProxy", client: socket.socket) -> None:
        self.proxy = proxy
        self.client = client
        self.server: socket.socket | None = None
        self.closed = False

    def start(self) -> None:
        """Begin to pass octets on, in both directions."""
        self.proxy.spawn(self._run)

    def close(self, *, reset: bool = False) -> None:
        """End both connections, with a reset instead of a clean end if asked."""
        self.closed = True
        for side in (self.client, self.server):
            if side is None:
                continue
            with contextlib.suppress(OSError):
                if reset:  # sent by the close that follows once recv() has returned
                    side.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                side.shutdown(socket.SHUT_RD if reset else socket.SHUT_RDWR)
        self.proxy.wake()

    def upward(self, octets: bytes) -> None:
        """Pass on what the client sent."""
        self.send_up(octets)

    def downward(self, octets: bytes) -> None:
        """Pass on what the server sent."""
        self.send_down(octets)

    def send_up(self, octets: bytes) -> None:
        """Send to the server, as fast as the proxy lets it."""
        assert self.server is not None
        self.proxy.pace(self, self.server, octets)

    def send_down(self, octets: bytes) -> None:
        """Send to the client, as fast as the proxy lets it."""
        self.proxy.pace(self, self.client, octets)

    def _run(self) -> None:
        self.proxy.wait_until_flowing(self)
        if not self.closed:
            try:
                self.server = self.proxy.connect()
            except OSError:
                self.close()
        if not self.closed and (server := self.server) is not None:
            down = self.proxy.spawn(
                lambda: self._pump(server, self.client, self.downward)
            )
            self._pump(self.client, server, self.upward)
            down.join()
        for side in (self.client, self.server):
            if side is not None:
                side.close()
        self.proxy.forget(self)

    def _pump(
        self,
        source: socket.socket,
        sink: socket.socket,
        passed: Callable[[bytes], None],
    ) -> None:
        try:
            while not self.closed and (octets := source.recv(CHUNK)):
                self.proxy.wait_until_flowing(self)
                if not self.closed:
                    passed(octets)
            self.proxy.wait_until_flowing(self)
            if not self.closed:
                sink.shutdown(socket.SHUT_WR)
        except OSError:
            # a process that is killed with octets unread resets its connection: the
            # other side must hear of it, or it would wait in the middle of its work
            self.close()


class TcpProxy:
    """Listens on a loopback port of its own and connects to ``target`` for each client.

    ``target`` is a host and port, or the path of a Unix socket. Use it as a context
    manager; at its end every connection is cut and every thread has ended.
    """

    link_type: type[Link] = Link

    def __init__(self, target: tuple[str, int] | str) -> None:
        self.target = target
        self.port = 0
        self.accepted = 0
        self._change = threading.Condition()
        self._frozen = False
        self._delay = 0.0
        self._drip: tuple[int, float] | None = None
        self._links: list[Link] = []
        self._threads: list[threading.Thread] = []
        self._listener: socket.socket | None = None

    def __enter__(self) -> Self:
        self.admit()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.refuse()
        self.cut()
        for thread in list(self._threads):
            thread.join(timeout=5)

    # --- what a test commands -------------------------------------------------------

    def admit(self) -> None:
        """Accept connections, again on the port of before."""
        listener = socket.create_server(("127.0.0.1", self.port))
        self.port = listener.getsockname()[1]
        self._listener = listener
        self.spawn(lambda: self._accept(listener))

    def refuse(self) -> None:
        """Let new connections be refused; those that stand are kept."""
        listener, self._listener = self._listener, None
        if listener is not None:
            # shutdown wakes the thread in accept(); close alone would not
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()

    def freeze(self) -> None:
        """Accept connections and pass nothing on, in no direction, until thawed."""
        self._set(frozen=True)

    def thaw(self) -> None:
        """Pass on what was held back, and everything after it."""
        self._set(frozen=False)

    def delay(self, seconds: float) -> None:
        """Hold each chunk back for this long."""
        self._delay = seconds

    def drip(self, octets: int, every: float) -> None:
        """Pass on so many octets at a time, each after a wait of ``every`` seconds."""
        self._drip = (octets, every)

    def cut(self, *, reset: bool = False) -> int:
        """Cut every connection that stands; return how many there were."""
        with self._change:
            links = list(self._links)
        for link in links:
            link.close(reset=reset)
        return len(links)

    # --- what a link asks -------------------------------------------------------------

    def connect(self) -> socket.socket:
        """Open a connection to the server."""
        if isinstance(self.target, str):
            server = socket.socket(socket.AF_UNIX)
            server.connect(self.target)
            return server
        server = socket.create_connection(self.target, timeout=None)
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return server

    def wait_until_flowing(self, link: Link) -> None:
        """Return when nothing is frozen, or when the link is closed."""
        with self._change:
            self._change.wait_for(lambda: not self._frozen or link.closed)

    def pace(self, link: Link, sink: socket.socket, octets: bytes) -> None:
        """Send octets at the commanded speed, until the link is closed."""
        if self._delay:
            self._pause(link, self._delay)
        while octets and not link.closed:
            size, every = self._drip or (len(octets), 0.0)
            if every:
                self._pause(link, every)
                self.wait_until_flowing(link)
            sink.sendall(octets[:size])
            octets = octets[size:]

    def spawn(self, work: Callable[[], None]) -> threading.Thread:
        """Run ``work`` in a thread that the end of the proxy waits for."""
        thread = threading.Thread(target=work, daemon=True)
        self._threads.append(thread)
        thread.start()
        return thread

    def wake(self) -> None:
        """Let waiting links look again."""
        with self._change:
            self._change.notify_all()

    def forget(self, link: Link) -> None:
        """Drop a link that has ended."""
        with self._change:
            self._links.remove(link)

    # ----------------------------------------------------------------------------------

    def _set(self, *, frozen: bool) -> None:
        with self._change:
            self._frozen = frozen
            self._change.notify_all()

    def _pause(self, link: Link, seconds: float) -> None:
        with self._change:
            self._change.wait_for(lambda: link.closed, timeout=seconds)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            link = self.link_type(self, client)
            with self._change:
                self._links.append(link)
                self.accepted += 1
            link.start()
