"""The guard of hosts that tenants choose: names, addresses, connections."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from ipaddress import ip_address
from typing import Any

import pytest

from core import network
from core.network import (
    HostRefused,
    LookupFailed,
    check_name,
    checked_addresses,
    connect,
    is_blocked,
    look_up,
)
from tests.support.waiting import until

NOT_NAMES = [
    *("127.0.0.1", "8.8.8.8", "[::1]", "::1", "[::ffff:127.0.0.1]", "2130706433"),
    *("0x7f000001", "0177.0.0.1", "127.1", "0x7f.1", "1.2.3.0x4", "127.0.0.1."),
    *("", ".", "..", "relay", "relay.", "-a.example.com", "a-.example.com"),
    *("a..example.com", "relay.example.com:25", "user@relay.example.com"),
    *("relay.example.com/x", "relay example.com", "relay.example.com\n", "\u0661.com"),
    *("\uff11\uff12\uff17.0.0.1", "b\u00fccher.example.com", "a" * 64 + ".com"),
    ".".join(["abcdefgh"] * 29),
]
REFUSED_NAMES = [
    *("localhost.localdomain.localhost", "relay.localhost", "relay.local"),
    *("relay.internal", "relay.invalid", "relay.test", "relay.example"),
    *("relay.onion", "router.home.arpa", "1.0.0.127.in-addr.arpa", "RELAY.Local."),
]
BLOCKED = [
    *("0.0.0.1", "0.255.255.255", "10.0.0.1", "10.255.255.255", "100.64.0.1"),
    *("100.127.255.255", "127.0.0.1", "127.255.255.255", "169.254.169.254"),
    *("172.16.0.1", "172.31.255.255", "192.0.0.8", "192.0.2.1", "192.88.99.1"),
    *("192.168.0.1", "198.18.0.1", "198.19.255.255", "198.51.100.7", "203.0.113.9"),
    *("224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255"),
    *("::", "::1", "::7f00:1", "100::1", "2001::1", "2001:1ff:ffff::", "2001:db8::1"),
    *("3fff::1", "5f00::1", "fc00::1", "fdff::1", "fe80::1", "febf::1", "fec0::1"),
    *("ff02::1", "::ffff:127.0.0.1", "::ffff:10.1.2.3", "64:ff9b::7f00:1"),
    *("64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "2002:7f00:1::1", "2002:c0a8:1::"),
]
PUBLIC = [
    *("1.1.1.1", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0"),
    *("126.255.255.255", "128.0.0.0", "172.15.255.255", "172.32.0.0", "192.0.1.1"),
    *("192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0"),
    *("223.255.255.255", "2606:4700::1111", "2001:200::1", "2a00:1450::1"),
    *("::ffff:1.1.1.1", "64:ff9b::101:101", "2002:101:101::1"),
]


@pytest.mark.parametrize("host", NOT_NAMES)
def test_what_is_no_full_name_or_is_an_address_is_refused(host: str) -> None:
    with pytest.raises(HostRefused):
        check_name(host)


@pytest.mark.parametrize("host", REFUSED_NAMES)
def test_names_of_this_network_are_refused(host: str) -> None:
    with pytest.raises(HostRefused):
        check_name(host)


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("smtp.example.com", "smtp.example.com"),
        ("SMTP.Example.COM.", "smtp.example.com"),
        ("hooks.example.com", "hooks.example.com"),
        ("xn--bcher-kva.example.net", "xn--bcher-kva.example.net"),
        ("mail.notlocal", "mail.notlocal"),
        ("0x7f.example.com", "0x7f.example.com"),
        ("1.2.3.example.com", "1.2.3.example.com"),
    ],
)
def test_a_public_name_passes_in_lower_case(host: str, name: str) -> None:
    assert check_name(host) == name


@pytest.mark.parametrize("host", ["api.pylota.net", "agents.net", "x.y.agents.net"])
def test_our_own_hosts_are_refused_with_all_below(host: str) -> None:
    with pytest.raises(HostRefused):
        check_name(host, refused=("API.pylota.net", "agents.net"))


@pytest.mark.parametrize("address", BLOCKED)
def test_an_address_of_a_closed_range_is_blocked(address: str) -> None:
    assert is_blocked(ip_address(address))


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_is_not_blocked(address: str) -> None:
    assert not is_blocked(ip_address(address))


Resolver = Callable[..., list[Any]]


def _answers(*addresses: str) -> Resolver:
    def getaddrinfo(host: str, port: int, **options: object) -> list[Any]:
        found: list[Any] = []
        for address in addresses:
            is_six = ":" in address
            family = socket.AF_INET6 if is_six else socket.AF_INET
            end = (address, port, 0, 0) if is_six else (address, port)
            found.append((family, socket.SOCK_STREAM, 6, "", end))
        return found

    return getaddrinfo


@pytest.mark.parametrize(
    "addresses",
    [
        ("127.0.0.1",),
        ("1.1.1.1", "10.0.0.1"),
        ("2606:4700::1111", "::ffff:127.0.0.1"),
        ("1.1.1.1", "fe80::1"),
    ],
)
def test_one_closed_address_refuses_the_whole_name(
    monkeypatch: pytest.MonkeyPatch, addresses: tuple[str, ...]
) -> None:
    # Given a name that leads to a public and to a closed address
    monkeypatch.setattr(socket, "getaddrinfo", _answers(*addresses))

    # When somebody wants to connect to it, no connection is made at all
    monkeypatch.setattr(socket, "socket", None)
    with pytest.raises(HostRefused):
        connect("relay.example.com", 465, seconds=1)


def test_the_address_that_was_checked_is_the_one_connected_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given a name whose second look-up would lead elsewhere
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        port = listener.getsockname()[1]
        asked: list[str] = []
        first, second = _answers("127.0.0.1"), _answers("127.0.0.9")

        def getaddrinfo(host: str, port: int, **options: object) -> list[Any]:
            asked.append(host)
            return (first if len(asked) == 1 else second)(host, port)

        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)

        # When we connect, the name is looked up once and that address is used
        with closing(connect("relay.here", port, seconds=2, allow_private=True)) as s:
            assert s.getpeername() == ("127.0.0.1", port)
        assert asked == ["relay.here"]


def test_the_next_address_is_tried_when_one_refuses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        port = listener.getsockname()[1]
        monkeypatch.setattr(socket, "getaddrinfo", _answers("::1", "127.0.0.1"))

        with closing(connect("relay.here", port, seconds=2, allow_private=True)) as s:
            assert s.getpeername()[0] == "127.0.0.1"


def test_an_address_that_swallows_packets_leaves_time_for_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given a first address whose queue of connections is full: it answers nothing
    with (
        closing(socket.socket()) as deaf,
        closing(socket.create_server(("127.0.0.1", 0))) as listener,
    ):
        port = listener.getsockname()[1]
        deaf.bind(("127.0.0.7", port))
        deaf.listen(0)
        with closing(socket.create_connection(("127.0.0.7", port))):
            monkeypatch.setattr(
                socket, "getaddrinfo", _answers("127.0.0.7", "127.0.0.1")
            )

            # When a second is given for both, the second address gets its half
            started = time.monotonic()
            sock = connect("relay.here", port, seconds=1, allow_private=True)
            with closing(sock):
                assert sock.getpeername()[0] == "127.0.0.1"
            assert 0.4 < time.monotonic() - started < 0.9


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """A resolver that answers nothing until the event is set."""
    let_go = threading.Event()

    def getaddrinfo(host: str, port: int, **options: object) -> list[object]:
        let_go.wait(30)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    yield let_go
    let_go.set()
    until(lambda: not any(t.name == "look-up" for t in threading.enumerate()))


def test_a_look_up_that_hangs_ends_in_time(hanging: threading.Event) -> None:
    started = time.monotonic()

    with pytest.raises(LookupFailed):
        look_up("relay.example.com", 465, seconds=0.2)

    assert time.monotonic() - started < 2


def test_only_so_many_look_ups_may_hang_and_then_none_starts(
    hanging: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given as many hanging look-ups as a process may have
    monkeypatch.setattr(network, "LOOKUPS", threading.BoundedSemaphore(3))
    for _ in range(3):
        with pytest.raises(LookupFailed):
            look_up("relay.example.com", 465, seconds=0.01)
    threads = threading.active_count()

    # When one more is wanted, it is refused at once, without a thread
    with pytest.raises(LookupFailed, match="hanging"):
        look_up("relay.example.com", 465, seconds=30)
    assert threading.active_count() == threads

    # And when they end, there is room again
    hanging.set()
    until(lambda: network.LOOKUPS.acquire(blocking=False))
    network.LOOKUPS.release()


def test_a_name_without_an_address_is_a_failed_look_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", _answers())

    with pytest.raises(LookupFailed):
        checked_addresses("relay.example.com", 465, seconds=1)


@pytest.mark.parametrize(
    "error", [socket.gaierror(-2, "Name or service not known"), UnicodeError("idna")]
)
def test_an_error_of_the_resolver_is_a_failed_look_up(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def getaddrinfo(host: str, port: int, **options: object) -> list[Any]:
        raise error

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)

    with pytest.raises(LookupFailed):
        look_up("no-such-host.example.com", 465, seconds=5)


def test_look_ups_without_a_thread_fail_and_use_up_no_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        for _ in range(40):
            with pytest.raises(LookupFailed, match="no thread"):
                look_up("127.0.0.1", 465, seconds=1)

    assert look_up("127.0.0.1", 465, seconds=5)
