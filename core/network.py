"""The guard before every connection to a host that a tenant chose.

Security, section 4: no IP literal in any notation, no name that means this network, and
no name any of whose addresses lies in a blocked range. What was checked is what is
connected to: the name is looked up once, and the address is pinned.
"""

import queue
import re
import socket
import threading
from collections.abc import Collection, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any

from core.elapsed import elapsed_clock

SocketAddress = tuple[socket.AddressFamily, tuple[Any, ...]]

REFUSED_SUFFIXES = (
    *("localhost", "local", "internal", "invalid", "test", "example", "onion"),
    *("home.arpa", "arpa"),
)
LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")

# The table is explicit: what Python calls private has changed between its versions.
BLOCKED_V4 = tuple(
    ip_network(text)
    for text in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8"),
        *("169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24"),
        *("192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24"),
        *("203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
    )
)
BLOCKED_V6 = tuple(
    ip_network(text)
    for text in (
        *("::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32"),
        *("3fff::/20", "5f00::/16", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8"),
    )
)
# networks whose addresses carry an IPv4 address, and how far from the right it stands
EMBEDDING = (
    (ip_network("::ffff:0:0/96"), 0),
    (ip_network("64:ff9b::/96"), 0),
    (ip_network("2002::/16"), 80),
)

LOOKUPS = threading.BoundedSemaphore(32)
"""Look-ups that may hang at one time in this process: each holds a thread."""


class HostRefused(Exception):
    """The guard forbids connections to this host; the message says why."""


class LookupFailed(OSError):
    """The host's name has no address, or nobody said so in time."""


def check_name(host: str, *, refused: Collection[str] = ()) -> str:
    """Return the host as a lower-case DNS name; raise HostRefused if it may not be one.

    ``refused`` are further names that are refused with everything below them: the API
    host and the platform domain.
    """
    name = host.lower().removesuffix(".")
    labels = name.split(".")
    if len(labels) < 2 or len(name) > 253:
        raise HostRefused("not a full DNS name")
    if not all(LABEL.fullmatch(label) for label in labels):
        raise HostRefused("not a DNS name")
    if NUMBER.fullmatch(labels[-1]):  # the resolver reads such a name as an address
        raise HostRefused("an address, not a name")
    for suffix in (*REFUSED_SUFFIXES, *(own.lower() for own in refused)):
        if name == suffix or name.endswith(f".{suffix}"):
            raise HostRefused(f"names under {suffix} are refused")
    return name


def is_blocked(address: IPv4Address | IPv6Address) -> bool:
    """Say whether an address lies in a range that no tenant may reach."""
    if isinstance(address, IPv4Address):
        return any(address in network for network in BLOCKED_V4)
    for network, shift in EMBEDDING:
        if address in network:
            return is_blocked(IPv4Address(int(address) >> shift & 0xFFFFFFFF))
    return any(address in network for network in BLOCKED_V6)


def is_private(target: SocketAddress) -> bool:
    """Say whether an address that was looked up lies in a closed range."""
    _, (address, *_rest) = target
    return is_blocked(ip_address(str(address).partition("%")[0]))


def look_up(host: str, port: int, *, seconds: float) -> Sequence[SocketAddress]:
    """Return the addresses of a host, in the resolver's order; raise LookupFailed.

    The C library's look-up has no time-out, so it runs in a thread of its own; one that
    hangs is left behind, and only so many may hang.
    """
    if not LOOKUPS.acquire(blocking=False):
        raise LookupFailed("too many look-ups are hanging")
    answers: queue.SimpleQueue[Sequence[SocketAddress] | Exception] = (
        queue.SimpleQueue()
    )

    def ask() -> None:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            answers.put([(family, address) for family, _, _, _, address in found])
        except (OSError, UnicodeError) as error:
            answers.put(error)
        finally:
            LOOKUPS.release()

    try:
        threading.Thread(target=ask, name="look-up", daemon=True).start()
    except RuntimeError as error:
        LOOKUPS.release()
        raise LookupFailed("no thread could be started") from error
    try:
        answer = answers.get(timeout=max(seconds, 0))
    except queue.Empty:
        raise LookupFailed(f"no answer within {seconds:.0f} s") from None
    if isinstance(answer, Exception):
        raise LookupFailed(str(answer)) from answer
    return answer


def checked_addresses(
    host: str, port: int, *, seconds: float, allow_private: bool = False
) -> Sequence[SocketAddress]:
    """Return the addresses that may be connected to; all of them are good, or none is.

    ``allow_private`` lets every range pass (the local environment). Raises HostRefused,
    LookupFailed.
    """
    found = look_up(host, port, seconds=seconds)
    if not found:
        raise LookupFailed("the name has no address")
    if not allow_private and any(is_private(target) for target in found):
        raise HostRefused("the name leads to an address that is not public")
    return found


def connect(
    host: str,
    port: int,
    *,
    seconds: float,
    allow_private: bool = False,
    refused: Collection[str] = (),
) -> socket.socket:
    """Open a TCP connection to a host that has passed the guard, within ``seconds``.

    Each address gets an even share of the time that is left. Raises HostRefused,
    LookupFailed, OSError (TimeoutError among them).
    """
    until = elapsed_clock() + seconds
    name = host if allow_private else check_name(host, refused=refused)
    targets = checked_addresses(
        name, port, seconds=seconds, allow_private=allow_private
    )
    failure: OSError = TimeoutError("no time left to connect")
    for tried, target in enumerate(targets):
        if (left := until - elapsed_clock()) <= 0:
            break
        try:
            return _connect(target, left / (len(targets) - tried))
        except OSError as error:
            failure = error
    raise failure


def _connect(target: SocketAddress, seconds: float) -> socket.socket:
    family, address = target
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.settimeout(seconds)
        sock.connect(address)
        # small writes are steps of their own: none may wait for an acknowledgement
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if sock.getpeername()[0] != address[0]:
            raise ConnectionError("connected to another address than the one checked")
    except BaseException:
        sock.close()
        raise
    return sock
