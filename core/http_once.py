"""One HTTP request, made once, under one absolute deadline.

No redirect, no second try at any layer, no proxy out of the environment. The deadline
covers the look-up of the name, the connection, TLS and every octet of the answer: the
watchdog shuts the socket, so a peer that drips does not outlive it.
"""

import socket
import ssl
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from functools import cache, partial
from typing import Final, Protocol

import httpcore
import httpx

from core.deadline import Deadline
from core.http_answer import Answer
from core.network import connect


class Connect(Protocol):
    """What opens the connection: it decides which hosts may be reached."""

    def __call__(self, host: str, port: int, *, seconds: float) -> socket.socket:
        """Return a connected socket; raises OSError, or HostRefused to call nobody."""


TO_OPERATORS_HOST: Final[Connect] = partial(connect, allow_private=True)
"""For hosts that the operator names: the guard is for those that tenants name."""

LONGEST_ANSWER = 1_048_576
"""Octets of an answer's body; who says more has not answered."""

UNHEARD: Final = frozenset({b"location", b"set-cookie"})
"""Headers that ``httpx`` reads, and may break on, though nothing comes of them here."""


class NoAnswer(Exception):
    """No complete answer came; whether the request was read, nobody knows."""


def ask(
    method: str,
    url: str,
    *,
    headers: Mapping[str, str],
    content: bytes = b"",
    deadline: Deadline,
    longest: int = LONGEST_ANSWER,
    is_cut: bool = False,
    connect: Connect = TO_OPERATORS_HOST,
) -> Answer:
    """Make one request and return its answer, of a bounded body; raises NoAnswer.

    A longer body is no answer either, unless ``is_cut`` leaves the rest of it unread.
    The name of the URL stays what TLS verifies and ``Host`` says, whatever address
    ``connect`` has chosen; what that raises beside OSError comes through.
    """
    with ExitStack() as stack:
        transport = _OneRequest(_Backend(deadline, stack, connect))
        client = stack.enter_context(
            httpx.Client(transport=transport, trust_env=False, follow_redirects=False)
        )
        try:
            with client.stream(method, url, headers=headers, content=content) as answer:
                body = _read(answer, longest, is_cut=is_cut)
                return Answer(answer.status_code, body, dict(answer.headers))
        except (httpcore.NetworkError, httpcore.ProtocolError) as error:
            raise NoAnswer(f"{type(error).__name__}: {error}") from error


def _read(answer: httpx.Response, longest: int, *, is_cut: bool) -> bytes:
    body = bytearray()
    for chunk in answer.iter_raw():
        body += chunk
        if len(body) > longest:
            if is_cut:
                return bytes(body[:longest])
            raise NoAnswer("an answer without end")
    return bytes(body)


class _OneRequest(httpx.BaseTransport):
    """A connection of its own for a request; its errors are ``httpcore``'s."""

    def __init__(self, backend: httpcore.NetworkBackend) -> None:
        self._backend = backend

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        url = request.url
        target = httpcore.URL(
            scheme=url.raw_scheme,
            host=url.raw_host,
            port=url.port,
            target=url.raw_path,
        )
        connection = httpcore.HTTPConnection(
            target.origin,
            ssl_context=_verified() if url.scheme == "https" else None,
            retries=0,
            network_backend=self._backend,
        )
        answer = connection.handle_request(
            httpcore.Request(
                request.method,
                target,
                headers=request.headers.raw,
                content=request.read(),
            )
        )
        assert isinstance(answer.stream, Iterable)  # noqa: S101  no event loop here
        heard = [(name, v) for name, v in answer.headers if name.lower() not in UNHEARD]
        return httpx.Response(answer.status, headers=heard, stream=_Body(answer.stream))


class _Body(httpx.SyncByteStream):
    def __init__(self, stream: Iterable[bytes]) -> None:
        self._stream = stream

    def __iter__(self) -> Iterator[bytes]:
        yield from self._stream


class _Backend(httpcore.NetworkBackend):
    """Connects within the deadline; ``stack`` closes what it has opened."""

    def __init__(self, deadline: Deadline, stack: ExitStack, connect: Connect) -> None:
        self._deadline, self._stack, self._connect = deadline, stack, connect

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        try:
            sock = self._connect(host, port, seconds=self._deadline.left())
            self._stack.callback(sock.close)
            self._stack.enter_context(self._deadline.kept_on(sock))
        except OSError as error:
            raise httpcore.ConnectError(str(error)) from error
        return _Stream(sock, self._deadline, self._stack)


class _Stream(httpcore.NetworkStream):
    """A socket whose every operation ends with the deadline."""

    def __init__(
        self, sock: socket.socket, deadline: Deadline, stack: ExitStack
    ) -> None:
        self._sock, self._deadline, self._stack = sock, deadline, stack

    def _arm(self) -> None:
        if (left := self._deadline.left()) <= 0:
            raise TimeoutError("the time of this call is over")
        self._sock.settimeout(left)

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        try:
            self._arm()
            return self._sock.recv(max_bytes)
        except OSError as error:
            raise httpcore.ReadError(str(error)) from error

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        try:
            self._arm()
            self._sock.sendall(buffer)
        except OSError as error:
            raise httpcore.WriteError(str(error)) from error

    def close(self) -> None:
        self._sock.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        try:
            self._arm()
            secured = ssl_context.wrap_socket(
                self._sock, server_hostname=server_hostname
            )
        except OSError as error:
            raise httpcore.ConnectError(str(error)) from error
        self._stack.callback(secured.close)
        return _Stream(secured, self._deadline, self._stack)

    def get_extra_info(self, info: str) -> object:
        is_tls = isinstance(self._sock, ssl.SSLSocket)
        return self._sock if info == "ssl_object" and is_tls else None


@cache
def _verified() -> ssl.SSLContext:
    return ssl.create_default_context()
