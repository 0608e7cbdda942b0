"""Mail that came in and means harm: it can be answered and forwarded all the same."""

from datetime import UTC, datetime
from typing import Any

import pytest

from core import objects
from mailboxes.models import Identity, Message
from outbound import answering, prepare
from tests.support.answering import named, received, with_file
from tests.support.api import ApiClient, code_of
from tests.support.mail_reader import modern

pytestmark = pytest.mark.django_db

HOSTILE_FILES: list[dict[str, Any]] = [
    {"content_type": "text/html; name=x\r\nBcc: a@b.example"},
    {"content_type": "nothing"},
    {"content_type": ""},
    {"content_type": "tëxt/plain"},
    {"disposition": "inline", "content_id": "a b"},
    {"disposition": "inline", "content_id": "<x>\r\nBcc: a@b.example"},
    {"disposition": "inline", "content_id": "é@x"},
    {"disposition": "inline", "content_id": ""},
    {"content_id": "a b"},
    {"disposition": None, "filename": None},
    {"filename": '..\\..\r\nBcc: a@b.example "\u202e'},
]


@pytest.mark.parametrize("file", HOSTILE_FILES, ids=repr)
@pytest.mark.parametrize("html", [None, "<p>See</p>"])
def test_a_forward_takes_a_file_along_whatever_its_headers_said(
    api: ApiClient, identity: Identity, file: dict[str, Any], html: str | None
) -> None:
    asked = received(identity)
    with_file(asked, **file)

    body = {"to": ["kim@example.org"], "text": "See", "html": html}
    response = api.answer("forward", asked.public_id, body)

    assert response.status_code == 202, response.content
    stored = Message.objects.get(public_id=response.json()["id"])
    mail = modern(objects.get(stored.raw_key or ""))
    assert "Bcc" not in mail
    contents = [part.get_content() for part in mail.walk() if part.get_filename()]
    assert len(contents) == 1 or file.get("filename", "") is None


HOSTILE_MAIL: list[dict[str, Any]] = [
    {"subject": "a\r\nBcc: x@y.example\r\n\r\nbody"},
    {"subject": "Re: " * 500},
    {"subject": "\u202e\u2028\x85" * 400},
    {"subject": "=?utf-8?q?a=0d=0aBcc:_x@y.example?="},
    {"subject": None},
    {"from_name": 'x"\r\nBcc: x@y.example'},
    {"from_name": "n" * 5000},
    {"rfc_message_id": "x>\r\nBcc: x@y.example"},
    {"rfc_message_id": "a" * 990 + "@b.example"},
    {"rfc_message_id": None},
    {"ref_ids": ["é@x", "", "a b@c", "x>\r\nBcc: y@z.example", "ok@x.example"]},
    {"in_reply_to": "a\r\nBcc: y@z.example"},
    {"automated": {"hop": True}},
    {"automated": {"hop": "9"}},
    {"automated": {"hop": -3}},
    {"automated": []},
    {"automated": "x"},
    {"text": None},
    {"text": "\r\x0b\x1b]0;x\x07.\r\n.\r\n"},
    {"sent_at": datetime(1, 1, 1, tzinfo=UTC)},
    {"sent_at": datetime(9999, 12, 31, 23, 59, tzinfo=UTC)},
    {"sent_at": None},
    {"to_addrs": [{"address": "x"}, {"address": "", "name": None}]},
    {"html_sanitized": ""},
]


@pytest.mark.parametrize("mail", HOSTILE_MAIL, ids=lambda mail: repr(mail)[:50])
@pytest.mark.parametrize("operation", ["reply", "forward"])
def test_hostile_mail_is_answered_and_forwarded_all_the_same(
    api: ApiClient, identity: Identity, mail: dict[str, Any], operation: str
) -> None:
    asked = received(identity, **mail)
    body: dict[str, Any] = {"text": "See", "html": "<p>See</p>"}
    if operation == "forward":
        body["to"] = ["kim@example.org"]

    response = api.answer(operation, asked.public_id, body)

    assert response.status_code == 202, response.content
    stored = Message.objects.get(public_id=response.json()["id"])
    read = modern(objects.get(stored.raw_key or ""))
    assert "Bcc" not in read
    assert not read.defects


def test_a_slow_store_holds_a_forward_of_many_files_for_ten_seconds_at_most(
    api: ApiClient, identity: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert prepare.READ_SECONDS == 10.0
    monkeypatch.setattr(prepare, "READ_SECONDS", 0.0)
    asked = received(identity)
    for _ in range(3):
        with_file(asked)
    read: list[str] = []
    get = objects.get

    def slow(key: str) -> bytes:
        read.append(key)
        return get(key)

    monkeypatch.setattr(objects, "get", slow)

    for query in ("", "?dry_run=true"):
        response = api.answer(
            "forward", asked.public_id, {"to": ["kim@example.org"]}, query=query
        )
        assert (response.status_code, code_of(response)) == (503, "unavailable")

    assert len(read) == 2
    assert not Message.objects.filter(direction="outbound").exists()


def test_a_reply_to_thousands_is_refused_before_each_is_looked_at(
    api: ApiClient, identity: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = named(*(f"u{n}@h{n}.example" for n in range(1001)))
    asked = received(identity, cc_addrs=many, to_addrs=[])
    looked: list[object] = []
    monkeypatch.setattr(answering, "reply_all_recipients", looked.append)

    refused = api.answer("reply-all", asked.public_id)

    assert (refused.status_code, code_of(refused)) == (400, "too_many_recipients")
    assert refused.json()["error"]["details"] == {"limit": 10}
    assert looked == []
    assert api.answer("reply", asked.public_id).status_code == 202
