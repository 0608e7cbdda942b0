"""The TCP proxy passes octets on, and misbehaves exactly as it is told."""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from tests.support.tcp_proxy import RESET, TcpProxy


@pytest.fixture
def echo() -> Iterator[tuple[str, int]]:
    """A server that says back what it hears."""
    listener = socket.create_server(("127.0.0.1", 0))

    def answer(client: socket.socket) -> None:
        with client, contextlib.suppress(ConnectionResetError):
            while octets := client.recv(65536):
                client.sendall(octets)

    def serve() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=[client], daemon=True).start()

    thread = threading.Thread(target=serve)
    thread.start()
    yield listener.getsockname()
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


@pytest.fixture
def proxy(echo: tuple[str, int]) -> Iterator[TcpProxy]:
    """A proxy before the echo."""
    with TcpProxy(echo) as proxy:
        yield proxy


def dial(proxy: TcpProxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=5)


def test_octets_pass_in_both_directions(proxy: TcpProxy) -> None:
    with dial(proxy) as client:
        client.sendall(b"hello")
        assert client.recv(5) == b"hello"
    assert proxy.accepted == 1


def test_an_end_of_the_client_reaches_the_server_and_comes_back(
    proxy: TcpProxy,
) -> None:
    with dial(proxy) as client:
        client.sendall(b"last words")
        client.shutdown(socket.SHUT_WR)
        assert client.recv(100) == b"last words"
        assert client.recv(1) == b""


def test_a_reset_by_the_client_reaches_the_server() -> None:
    # Given a server that waits for the next words of a client
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        TcpProxy(listener.getsockname()) as proxy,
        dial(proxy) as client,
    ):
        client.sendall(b"x")
        server, _ = listener.accept()
        with server:
            assert server.recv(1) == b"x"
            server.settimeout(5)

            # When the client is gone as a killed process goes: with a reset
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            client.close()

            # Then the server does not go on waiting
            with contextlib.suppress(ConnectionResetError):
                assert server.recv(1) == b""


def test_a_frozen_proxy_accepts_and_says_nothing_until_thawed(
    proxy: TcpProxy,
) -> None:
    # Given one connection that stands, and a proxy that freezes
    with dial(proxy) as early:
        early.sendall(b"a")
        assert early.recv(1) == b"a"
        proxy.freeze()

        # When both an old and a new client speak
        with dial(proxy) as late:
            for client in (early, late):
                client.sendall(b"b")
                client.settimeout(0.1)
                with pytest.raises(TimeoutError):
                    client.recv(1)

            # Then what they said is answered after the thaw
            proxy.thaw()
            for client in (early, late):
                client.settimeout(5)
                assert client.recv(1) == b"b"


def test_a_drip_passes_so_many_octets_at_a_time(proxy: TcpProxy) -> None:
    proxy.drip(1, every=0.02)
    with dial(proxy) as client:
        started = time.monotonic()
        client.sendall(b"12345")
        received = [client.recv(1) for _ in range(5)]
        assert b"".join(received) == b"12345"
        assert time.monotonic() - started >= 0.1


def test_a_delay_holds_each_chunk_back(proxy: TcpProxy) -> None:
    proxy.delay(0.1)
    with dial(proxy) as client:
        started = time.monotonic()
        client.sendall(b"x")
        assert client.recv(1) == b"x"
        assert time.monotonic() - started >= 0.2


def test_a_cut_ends_what_stands_and_nothing_that_comes(proxy: TcpProxy) -> None:
    with dial(proxy) as client, dial(proxy) as other:
        client.sendall(b"x")
        assert client.recv(1) == b"x"
        other.sendall(b"x")
        assert other.recv(1) == b"x"
        assert proxy.cut() == 2
        assert client.recv(1) == b""
        assert other.recv(1) == b""
    with dial(proxy) as again:
        again.sendall(b"y")
        assert again.recv(1) == b"y"


def test_a_cut_may_be_a_reset(proxy: TcpProxy) -> None:
    with dial(proxy) as client:
        client.sendall(b"x")
        assert client.recv(1) == b"x"
        proxy.cut(reset=True)
        with pytest.raises(ConnectionResetError):
            client.recv(1)


def test_a_refusing_proxy_comes_back_on_its_port(proxy: TcpProxy) -> None:
    port = proxy.port
    proxy.refuse()
    with pytest.raises(ConnectionRefusedError):
        dial(proxy)
    proxy.admit()
    assert proxy.port == port
    with dial(proxy) as client:
        client.sendall(b"x")
        assert client.recv(1) == b"x"


def test_a_server_that_is_away_ends_the_client_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closing:
        target = closing.getsockname()
    with TcpProxy(target) as proxy, dial(proxy) as client:
        assert client.recv(1) == b""
