"""Answers over HTTP that are hardly any, octet by octet: one request, and no guess."""

import gzip
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from outbound.transports.base import (
    Accepted,
    OutgoingMessage,
    TransportResult,
    UncertainReason,
    Unknown,
)
from outbound.transports.cloudflare import CloudflareTransport

RESULT = {"delivered": [], "permanent_bounces": [], "queued": ["a@example.net"]}
GOOD = json.dumps({"success": True, "errors": [], "result": RESULT}).encode()
MAIL = OutgoingMessage(
    message_id=f"msg_{1:026}",
    rfc_message_id="01k@x.test",
    domain="x.test",
    from_address="from@x.test",
    recipients=("a@example.net",),
    mime=b"From: from@x.test\r\nTo: a@example.net\r\nSubject: Hi\r\n\r\nHello.\r\n",
    deadline_seconds=5.0,
)


def _answer(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    named = "".join(f"{header}\r\n" for header in headers)
    return f"HTTP/1.1 {status}\r\n{named}\r\n".encode() + body


def _length(n: int) -> str:
    return f"Content-Length: {n}"


CHUNKED = "Transfer-Encoding: chunked"
CHUNK = f"{len(GOOD):x}\r\n".encode() + GOOD + b"\r\n"
INTERIM = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
WHOLE = _answer(GOOD, _length(len(GOOD)))


@contextmanager
def peer(octets: bytes) -> Iterator[tuple[str, list[int]]]:
    """Answer every connection with these octets; count them."""
    connections: list[int] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            connections.append(1)
            with sock:
                sock.settimeout(5)
                read = b""
                while not read.endswith(b"}"):
                    read += sock.recv(65536)
                sock.sendall(octets)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", connections
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(10)
        listener.close()


def called(octets: bytes) -> TransportResult:
    """Return how one call ends that is answered so; it is one connection."""
    with peer(octets) as (base, connections):
        transport = CloudflareTransport(account_id="acc", token="secret", base=base)
        result = transport.send(MAIL)
        assert len(connections) == 1
    return result


@pytest.mark.parametrize(
    "octets",
    [
        WHOLE,
        INTERIM * 3 + WHOLE,
        _answer(CHUNK + b"0\r\n\r\n", CHUNKED),
        _answer(CHUNK + b"0\r\nX-Late: 1\r\n\r\n", CHUNKED),
        _answer(GOOD),  # the end of the connection ends the body
        WHOLE + b"HTTP/1.1 500 more\r\n\r\n",
        _answer(GOOD, _length(len(GOOD)), status="201 Created"),
    ],
    ids=["plain", "interim", "chunked", "trailer", "to the end", "more", "201"],
)
def test_a_whole_answer_counts_however_it_is_framed(octets: bytes) -> None:
    assert isinstance(called(octets), Accepted)


ZIPPED = gzip.compress(GOOD)
BOMB = gzip.compress(b" " * 50_000_000, 9)
UNCLEAR = {
    "nothing": b"",
    "no status line": b"hello\r\n\r\n",
    "another protocol": b"220 relay.test ESMTP\r\n",
    "NUL": b"HTTP/1.1 200 \x00\r\n\x00\r\n\r\n" + GOOD,
    "two lengths": _answer(GOOD, _length(len(GOOD)), _length(len(GOOD) - 9)),
    "a length that is none": _answer(GOOD, "Content-Length: -1"),
    "too few octets": _answer(GOOD, _length(len(GOOD) + 1)),
    "a chunk cut short": _answer(CHUNK[:-9], CHUNKED),
    "no last chunk": _answer(CHUNK, CHUNKED),
    "a chunk size that is none": _answer(b"zz\r\n" + GOOD, CHUNKED),
    "headers without end": _answer(b"", "X-A: " + "a" * 500_000),
    "a header without a name": _answer(GOOD, ": x"),
    "interim answers only": INTERIM * 50,
    "another protocol asked for": _answer(GOOD, status="101 Switching Protocols"),
    "no content": _answer(b"", status="204 No Content"),
    "a redirect": _answer(GOOD, "Location: /", _length(len(GOOD)), status="307 No"),
    "zipped": _answer(ZIPPED, "Content-Encoding: gzip", _length(len(ZIPPED))),
    "a bomb": _answer(BOMB, "Content-Encoding: gzip", _length(len(BOMB))),
    "too long": _answer(GOOD + b" " * 1_100_000, _length(len(GOOD) + 1_100_000)),
}


@pytest.mark.parametrize("octets", UNCLEAR.values(), ids=UNCLEAR)
def test_what_is_no_whole_answer_leaves_doubt_and_is_not_asked_again(
    octets: bytes,
) -> None:
    result = called(octets)

    assert isinstance(result, Unknown)
    assert result.reason == UncertainReason.CONNECTION_LOST
    assert "a@example.net" not in result.detail
    assert len(result.detail) <= 512
