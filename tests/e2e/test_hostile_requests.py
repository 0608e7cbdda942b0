"""Whatever is sent to it, the web answers with the envelope, and never with a 500."""

import json
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from mailboxes.models import Message
from tests.support.api import booking
from tests.support.processes import Running
from tests.support.web import Sender

pytestmark = pytest.mark.django_db(transaction=True)

SENT = json.dumps(booking()).encode()
BODIES = {
    "nothing": b"",
    "a byte order mark": b"\xef\xbb\xbf" + SENT,
    "UTF-16": SENT.decode().encode("utf-16"),
    "a surrogate in UTF-8": b'{"subject":"\xed\xa0\x80"}',
    "half a pair": b'{"to":["a@b.co"],"subject":"s","text":"\\udfff"}',
    "a NUL": b'{"to":["a@b.co"],"subject":"a\\u0000","text":"t"}',
    "NaN": b'{"a":NaN}',
    "1e400": b'{"a":1e400}',
    "a number of six million digits": b'{"a":' + b"9" * 6_000_000 + b"}",
    "three million brackets": b"[" * 3_000_000,
    "a name twice": b'{"to":["a@b.co"],"to":["c@d.co"]}',
    "ten thousand recipients": json.dumps(
        booking(to=[f"u{n}@example.net" for n in range(10_000)])
    ).encode(),
    "base64 that fills the message": json.dumps(
        booking(
            attachments=[
                {
                    "filename": "a",
                    "content_type": "a/b",
                    "content_base64": "A" * 7_000_000,
                }
            ]
        )
    ).encode(),
    "a recipient with a command": json.dumps(
        booking(to=["a@b.co>\r\nRCPT TO:<x@y.zz"])
    ).encode(),
    "a header that is two": json.dumps(
        booking(headers={"X-A": "b\r\nBcc: x@y.zz"})
    ).encode(),
}
LINES = {
    "compressed": "Content-Encoding: gzip\r\nContent-Type: application/gzip",
    "a form": "Content-Type: application/x-www-form-urlencoded",
    "another key": "Authorization: Bearer pmk_live_x",
    "an empty key": "Idempotency-Key:",
}
TARGETS = (
    *("/v1/%00", "/v1/identities/%00/messages", "/v1/identities/idn_%ff/messages"),
    *("//v1/me", "/v1/me/", "/%", "/%2e%2e/", f"/{'a' * 50_000}", "*"),
)
QUERIES = ("limit=%00", f"limit={'9' * 5000}", "cursor=%00", "cursor=c_%ff")
METHODS = ("HEAD", "OPTIONS", "TRACE", "PUT", "DELETE", "CONNECT", "MADE-UP")


@pytest.fixture
def client(transactional_db: None) -> Iterator[Sender]:
    made = Sender.new()
    yield made
    made.close()


def ask(
    web: Running,
    client: Sender,
    start: str,
    body: bytes = b"",
    *lines: str,
    defaults: bool = True,
) -> tuple[int, bytes]:
    """Send one request; return the status and the body that came back."""
    where = urlsplit(web.url)
    given = [*lines, f"Content-Length: {len(body)}", "Connection: close"]
    if defaults:
        given += ["Host: localhost", f"Authorization: Bearer {client.secret}"]
        given += ["Idempotency-Key: k"]
    head = "\r\n".join([f"{start} HTTP/1.1", *given, "", ""])
    with socket.create_connection((where.hostname, where.port), timeout=30) as line:
        line.sendall(head.encode("latin-1") + body)
        answer = line.makefile("rb").read()
    first, _, rest = answer.partition(b"\r\n")
    return int(first.split()[1]), rest.partition(b"\r\n\r\n")[2]


def assert_refused(status: int, body: bytes, *, has_body: bool = True) -> None:
    assert 400 <= status < 500, (status, body[:300])
    if has_body:
        error = json.loads(body)["error"]
        assert error.keys() == {
            *("code", "message", "retryable", "fix", "request_id", "details")
        }
        assert len(body) < 50_000


@pytest.mark.parametrize("name", BODIES)
def test_a_hostile_body_is_refused(web: Running, client: Sender, name: str) -> None:
    status, body = ask(web, client, f"POST {client.path}", BODIES[name])

    assert_refused(status, body)
    assert not Message.objects.exists()


@pytest.mark.parametrize("name", LINES)
def test_hostile_header_lines_are_refused(
    web: Running, client: Sender, name: str
) -> None:
    kept = [LINES[name]]
    for line in (
        "Host: localhost",
        f"Authorization: Bearer {client.secret}",
        "Idempotency-Key: k",
    ):
        if line.partition(":")[0] not in LINES[name]:
            kept.append(line)

    status, body = ask(web, client, f"POST {client.path}", SENT, *kept, defaults=False)

    assert_refused(status, body)
    assert not Message.objects.exists()


def test_hostile_targets_and_queries_are_refused(web: Running, client: Sender) -> None:
    queries = [f"{client.path}?{query}" for query in QUERIES]

    for target in (*TARGETS, *queries):
        assert_refused(*ask(web, client, f"GET {target}"))


def test_verbs_that_no_route_knows_are_refused(web: Running, client: Sender) -> None:
    for method in METHODS:
        for target in (client.path, "/v1/nowhere"):
            status, body = ask(web, client, f"{method} {target}")
            is_head = method == "HEAD"
            if is_head and target == client.path:
                assert status == 200  # a GET without its body
            else:
                assert_refused(status, body, has_body=not is_head)


def family(pid: int) -> list[int]:
    """Return a process and all that it started, and they."""
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    children = [int(child) for task in tasks for child in task.read_text().split()]
    return [pid, *(one for child in children for one in family(child))]


def kilobytes(pids: list[int], field: str) -> int:
    """Return a field of the processes' status, summed."""
    found = [Path(f"/proc/{pid}/status").read_text() for pid in pids]
    return sum(int(text.partition(f"{field}:")[2].split()[0]) for text in found)


def test_row_22_what_is_far_too_large_costs_the_web_little_memory(
    web: Running, client: Sender
) -> None:
    """Row 22: 50 MB, ten thousand recipients, three million brackets, each thrice."""
    # Given a web that has answered before, and forgets its highest use of memory
    ask(web, client, f"POST {client.path}", b"{}")
    pids = family(web.pid)
    for pid in pids:
        Path(f"/proc/{pid}/clear_refs").write_text("5")
    before = kilobytes(pids, "VmRSS")
    names = ("ten thousand recipients", "three million brackets")
    bodies = [b"[" * 50_000_000, *(BODIES[name] for name in names)]

    # When what no send may hold is posted
    for body in bodies * 3:
        with suppress(ConnectionError):  # refused and closed while it is still sent
            assert_refused(*ask(web, client, f"POST {client.path}", body))

    # Then it was never held in memory
    assert kilobytes(pids, "VmHWM") - before < 50_000
    assert kilobytes(pids, "VmRSS") > before // 2  # they are the ones that served
    assert not Message.objects.exists()
