"""What the Python client sends and returns, how it waits, and what its package is."""

import base64
import json
import pickle
import tomllib
from dataclasses import FrozenInstanceError
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

import pylota_client
from pylota_client import (
    SENT,
    Address,
    Attachment,
    Client,
    CursorExpired,
    NotFound,
    WaitTimedOut,
)
from tests.support.python_client import (
    API_KEY,
    IDENTITY,
    MESSAGE,
    Step,
    accepted,
    answer,
    message_json,
    refused,
    scripted,
)

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "clients" / "python"
MAILBOX = f"/v1/identities/{IDENTITY}/messages"


def state(status: str, **changes: Any) -> httpx.Response:
    return answer(200, message_json(status=status, **changes))


# --- what is sent ---------------------------------------------------------------------


def test_a_send_becomes_the_documented_body() -> None:
    client, server, _ = scripted([accepted()])

    client.identity(IDENTITY).send(
        to=Address("jo@example.net", "Jo"),
        cc=["lee@example.org", Address("kim@example.org")],
        subject="Grüße",
        text="Hi",
        html=None,
        labels=("a",),
        attachments=[Attachment("a.txt", b"\x00\xff", "text/plain")],
    )

    request = server.seen[0]
    assert (request.method, request.url.path) == ("POST", MAILBOX)
    assert request.headers["Authorization"] == f"Bearer {API_KEY}"
    assert request.headers["Content-Type"] == "application/json"
    assert json.loads(request.content) == {
        "to": [{"address": "jo@example.net", "name": "Jo"}],
        "cc": ["lee@example.org", {"address": "kim@example.org"}],
        "subject": "Grüße",
        "text": "Hi",
        "labels": ["a"],
        "attachments": [
            {
                "filename": "a.txt",
                "content_type": "text/plain",
                "content_base64": base64.b64encode(b"\x00\xff").decode(),
                "disposition": "attachment",
            }
        ],
    }


def test_answers_go_to_their_routes() -> None:
    client, server, _ = scripted([accepted()])
    sender = client.identity(IDENTITY)

    sender.reply(MESSAGE, text="Fine.")
    sender.reply_all(MESSAGE, text="Fine.", kind="auto_reply")
    sender.forward(MESSAGE, to="lee@example.org", include_attachments=False)

    assert [
        (request.url.path.removeprefix(f"{MAILBOX}/"), json.loads(request.content))
        for request in server.seen
    ] == [
        (f"{MESSAGE}/reply", {"text": "Fine."}),
        (f"{MESSAGE}/reply-all", {"text": "Fine.", "kind": "auto_reply"}),
        (
            f"{MESSAGE}/forward",
            {"to": ["lee@example.org"], "include_attachments": False},
        ),
    ]


def test_a_server_below_a_path_is_reached_there() -> None:
    seen: list[str] = []

    def respond(request: httpx.Request) -> httpx.Response:
        seen.append(str(request.url))
        return state("queued")

    transport = httpx.MockTransport(respond)
    with Client("https://example.net/mail/", API_KEY, transport=transport) as client:
        client.identity(IDENTITY).get(MESSAGE)

    assert seen == [f"https://example.net/mail{MAILBOX}/{MESSAGE}"]


@pytest.mark.parametrize("wrong", ["", "..", "a/b", "msg_1?x=y", "é", "a" * 65])
def test_what_is_no_id_asks_nothing(wrong: str) -> None:
    client, server, _ = scripted([accepted()])

    with pytest.raises(ValueError, match="not an id"):
        client.identity(wrong)
    with pytest.raises(ValueError, match="not an id"):
        client.identity(IDENTITY).reply(wrong, text="Hi")
    with pytest.raises(ValueError, match="not an id"):
        client.identity(IDENTITY).get(wrong)
    assert server.seen == []


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "mail.example",
        "ftp://a",
        "http://",
        "http://me:pw@a",
        "http://a/?b",
        "http://a:b/",
    ],
)
def test_a_base_url_that_cannot_be_right_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="base_url"):
        Client(wrong, API_KEY)


# --- what comes back ------------------------------------------------------------------


def test_a_message_is_typed_and_keeps_what_is_not_named() -> None:
    delivery = {
        "address": "jo@example.net",
        "field": "to",
        "status": "bounced",
        "reason": "hard_bounce",
        "smtp_code": "550",
        "bounce_type": "hard",
        "updated_at": "2026-11-02T09:15:20.114Z",
    }
    file = {"id": "att_1", "filename": "a.pdf", "content_type": "a/b", "size": 3}
    sender = {"address": "a@example.com", "name": "A"}
    client, _, _ = scripted(
        [
            state(
                "bounced", deliveries=[delivery], attachments=[file], **{"from": sender}
            )
        ]
    )

    found = client.identity(IDENTITY).get(MESSAGE)

    assert found.from_ == Address("a@example.com", "A")
    assert found.to == (Address("jo@example.net"),)
    assert found.sent_at == datetime(2026, 11, 2, 9, tzinfo=UTC)
    assert found.deliveries[0].updated_at == datetime(
        2026, 11, 2, 9, 15, 20, 114000, tzinfo=UTC
    )
    assert (found.deliveries[0].smtp_code, found.attachments[0].size) == ("550", 3)
    assert found.is_final
    assert found.raw["deliveries"] == [delivery]
    with pytest.raises(FrozenInstanceError):
        found.status = "delivered"  # type: ignore[misc]


def test_what_a_later_server_adds_is_taken() -> None:
    client, _, _ = scripted(
        [
            answer(
                200,
                {
                    "id": MESSAGE,
                    "status": "teleported",
                    "kind": "smell",
                    "sent_at": "one day",
                    "colour": "red",
                    "deliveries": None,
                },
            )
        ]
    )

    found = client.identity(IDENTITY).get(MESSAGE)

    assert (found.status, found.kind, found.sent_at) == ("teleported", "smell", None)
    assert not found.is_final
    assert found.raw["colour"] == "red"


# --- waiting --------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["delivered", "bounced", "failed", "uncertain"])
def test_waiting_ends_with_a_final_status_or_a_doubt(end: str) -> None:
    steps: list[Step] = [*[state("queued")] * 3, state("submitted"), state(end)]
    client, _, clock = scripted(steps)

    found = client.identity(IDENTITY).wait(MESSAGE)

    assert (found.status, found.is_uncertain) == (end, end == "uncertain")
    assert clock.slept == pytest.approx([0.2, 0.3, 0.45, 0.675])


def test_waiting_may_end_when_the_message_has_left() -> None:
    client, server, _ = scripted([state("queued"), state("submitted")])

    found = client.identity(IDENTITY).wait(MESSAGE, until=SENT)

    assert (found.status, len(server.seen)) == ("submitted", 2)


def test_waiting_has_an_end_and_tells_the_last_state() -> None:
    client, server, clock = scripted([state("submitted")])

    with pytest.raises(WaitTimedOut) as caught:
        client.identity(IDENTITY).wait(MESSAGE, timeout=30)

    assert clock.passed == pytest.approx(30)
    assert len(server.seen) == len(clock.slept) + 1 < 20
    assert caught.value.last is not None
    assert caught.value.last.status == "submitted"
    assert "wait(until=SENT)" in str(caught.value)
    again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301  our own
    assert (str(again), again.last) == (str(caught.value), caught.value.last)


def test_waiting_for_a_server_that_is_away_times_out_as_well() -> None:
    client, _, clock = scripted([state("queued"), httpx.ConnectError("refused")])

    with pytest.raises(WaitTimedOut) as caught:
        client.identity(IDENTITY).wait(MESSAGE, timeout=20)

    assert clock.passed <= 20
    assert caught.value.last is not None
    assert isinstance(caught.value.__cause__, pylota_client.NoAnswer)


def test_waiting_for_what_is_not_there_says_so() -> None:
    client, _, _ = scripted([refused(404, "message_not_found")])

    with pytest.raises(NotFound):
        client.identity(IDENTITY).wait(MESSAGE)


# --- the feed -------------------------------------------------------------------------


def test_a_cursor_that_is_refused_at_the_start_is_an_error() -> None:
    client, _, _ = scripted([refused(410, "cursor_expired")])

    with pytest.raises(CursorExpired):
        list(client.events())


# --- the package ----------------------------------------------------------------------


def test_the_package_says_what_it_is() -> None:
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]

    assert project["version"] == pylota_client.__version__
    assert [each.partition(">")[0] for each in project["dependencies"]] == ["httpx"]
    assert project["requires-python"] == ">=3.11"
    assert (PACKAGE / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()
    assert (PACKAGE / "src" / "pylota_client" / "py.typed").exists()
