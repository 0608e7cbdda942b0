"""What the web server lets through is closed by us (runtime facts, section 6)."""

import json
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from mailboxes.models import Message
from tests.support.api import booking
from tests.support.processes import Processes, Running
from tests.support.web import Sender

pytestmark = pytest.mark.django_db(transaction=True)

BODY = json.dumps(booking()).encode()


@pytest.fixture
def sender(transactional_db: None) -> Iterator[Sender]:
    """A client of the API."""
    made = Sender.new()
    yield made
    made.close()


@pytest.fixture(scope="module")
def web(
    django_db_setup: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    """One web process for all that is asked here."""
    found = Processes(tmp_path_factory.mktemp("web"))
    yield found.web()
    found.end_all()


def said(web: Running, octets: bytes, *, ends: bool = False) -> tuple[int, bytes]:
    """Send octets as they are; return the status and the body that came back."""
    where = urlsplit(web.url)
    with socket.create_connection((where.hostname, where.port), timeout=20) as line:
        line.sendall(octets)
        if ends:
            line.shutdown(socket.SHUT_WR)
        reader = line.makefile("rb")
        status = int(reader.readline().split()[1])
        length = 0
        while (header := reader.readline().strip().lower()) != b"":
            if header.startswith(b"content-length:"):
                length = int(header.split(b":")[1])
        return status, reader.read(length)


def post(sender: Sender, *lines: str | bytes, body: bytes = BODY) -> bytes:
    """Return a request with header lines of its own, and no others."""
    head = [
        f"POST {sender.path} HTTP/1.1",
        "Host: localhost",
        "Connection: close",
        f"Authorization: Bearer {sender.secret}",
        *lines,
    ]
    octets = [line.encode() if isinstance(line, str) else line for line in head]
    return b"\r\n".join(octets) + b"\r\n\r\n" + body


def code(body: bytes) -> str:
    return str(json.loads(body)["error"]["code"])


LENGTH = f"Content-Length: {len(BODY)}"


def test_two_lines_of_the_key_are_joined_and_are_a_key_of_their_own(
    web: Running, sender: Sender
) -> None:
    twice = post(sender, "Idempotency-Key: a", "Idempotency-Key: b", LENGTH)
    once = post(sender, "Idempotency-Key: a,b", LENGTH)

    status, first = said(web, twice)
    _, again = said(web, once)

    assert status == 202
    assert json.loads(again)["id"] == json.loads(first)["id"]
    _, other = said(web, post(sender, "Idempotency-Key: a", LENGTH))
    assert json.loads(other)["id"] != json.loads(first)["id"]


@pytest.mark.parametrize(
    "line",
    [b"Idempotency-Key:", b"Idempotency-Key: caf\xc3\xa9", b"Idempotency-Key: \xff"],
)
def test_a_key_that_arrives_empty_is_present_and_wrong(
    web: Running, sender: Sender, line: bytes
) -> None:
    status, body = said(web, post(sender, line, LENGTH))

    assert status == 400
    assert not body or code(body) == "invalid_idempotency_key"
    assert not Message.objects.exists()


def test_a_chunked_body_is_refused_with_or_without_a_length(
    web: Running, sender: Sender
) -> None:
    chunked = b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
    lines = ("Idempotency-Key: k", "Transfer-Encoding: chunked")

    alone = said(web, post(sender, *lines, body=chunked))
    beside = said(web, post(sender, *lines, LENGTH, body=chunked))

    assert (alone[0], code(alone[1])) == (411, "length_required")
    assert beside[0] in (400, 411)
    assert not Message.objects.exists()


def test_two_lengths_are_refused(web: Running, sender: Sender) -> None:
    lines = ("Idempotency-Key: k", LENGTH, "Content-Length: 5")

    status, _ = said(web, post(sender, *lines))

    assert status == 400


def test_a_client_that_leaves_in_mid_body_sends_nothing(
    web: Running, sender: Sender
) -> None:
    longer = f"Content-Length: {len(BODY) + 100}"

    try:
        status, body = said(web, post(sender, "Idempotency-Key: k", longer), ends=True)
    except (IndexError, OSError):
        status, body = 0, b""  # the server gave up on a client that had left

    assert status in (0, 400)
    assert not body or code(body) == "invalid_request"
    assert not Message.objects.exists()


def test_a_body_that_is_too_long_is_refused_unread(
    web: Running, sender: Sender
) -> None:
    announced = "Content-Length: 50000000"

    status, body = said(web, post(sender, "Idempotency-Key: k", announced, body=b"{"))

    assert (status, code(body)) == (413, "payload_too_large")


def test_no_variable_of_the_process_poses_as_a_header(
    processes: Processes, sender: Sender
) -> None:
    web = processes.web(
        HTTP_AUTHORIZATION=f"Bearer {sender.secret}",
        HTTP_IDEMPOTENCY_KEY="planted",
    )
    without_key = b"GET /v1/me HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"

    assert said(web, without_key)[0] == 401
    status, body = said(web, post(sender, LENGTH))
    # the same value is dropped even where the client itself sent it
    assert (status, code(body)) == (401, "unauthenticated")


def test_http2_in_clear_text_is_not_spoken(web: Running) -> None:
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    where = urlsplit(web.url)

    with socket.create_connection((where.hostname, where.port), timeout=20) as line:
        line.sendall(preface + b"\0\0\0\4\0\0\0\0\0")
        answer = line.recv(100)

    assert answer == b"" or answer.startswith(b"HTTP/1.1 4")
