"""GET …/messages/{id}?include=: bodies and headers, for who asks."""

from typing import Any

import pytest

from core import objects, sanitizing
from mailboxes.models import Identity, Message, Thread
from outbound import ledger, stored_html
from outbound.api.schemas import MessageWithIncludes
from tests.support.answering import received
from tests.support.api import ApiClient, booking, code_of, paths_of
from tests.support.mail_reader import modern

pytestmark = pytest.mark.django_db
COSTLY = "<b><p></b>" * 20_000
ACTING = "<p>Hi<script>x()</script><img src='https://x.example/p'></p>"


def read(api: ApiClient, message_id: str, include: str | None = None) -> Any:
    query = "" if include is None else f"?include={include}"
    return api.get(f"{api.path}/{message_id}{query}")


def test_without_include_a_message_has_neither_bodies_nor_headers(
    api: ApiClient,
) -> None:
    sent = api.send(booking(html=ACTING)).json()

    assert not {"text", "html", "headers"} & read(api, sent["id"]).json().keys()
    assert Message.objects.get().html_sanitized is None


def test_the_first_read_of_the_html_makes_its_sanitised_copy_and_the_next_has_it(
    api: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = api.send(booking(html=ACTING)).json()
    assert Message.objects.get().html_sanitized is None  # not by the send

    first = read(api, sent["id"], "html").json()

    assert first["html"] == "<p>Hi<img></p>" == Message.objects.get().html_sanitized
    assert not {"text", "headers"} & first.keys()
    monkeypatch.setattr(stored_html, "sanitize_apart", None)
    assert read(api, sent["id"], "html").json() == first


def test_the_whole_text_comes_with_quoted(api: ApiClient, identity: Identity) -> None:
    asked = received(
        identity, text="Fine.\n\n> Is Friday fine?", extracted_text="Fine."
    )

    found = read(api, asked.public_id, "quoted").json()

    assert found["text"] == "Fine.\n\n> Is Friday fine?"
    assert found["extracted_text"] == "Fine."


def test_the_headers_are_those_that_were_sent(api: ApiClient) -> None:
    words = "über " * 40
    body = booking(subject=words, bcc=["boss@example.org"], headers={"X-Trip": "a  b"})
    sent = api.send(body).json()

    found = read(api, sent["id"], "headers").json()["headers"]

    stored = modern(objects.get(Message.objects.get().raw_key or ""))
    assert [line["name"] for line in found] == list(stored.keys())
    shown = {line["name"]: line["value"] for line in found}
    assert shown["X-Trip"] == "a  b"
    assert shown["Message-ID"] == f"<{sent['rfc_message_id']}>"
    assert shown["Subject"].startswith("=?utf-8?")
    assert not any("\n" in value or "\r" in value for value in shown.values())
    assert "boss@example.org" not in str(found)


def test_several_are_asked_for_with_commas(api: ApiClient) -> None:
    sent = api.send(booking(html="<p>Hi</p>")).json()

    for asked in ("html,quoted,headers", "headers,quoted,html,html"):
        found = read(api, sent["id"], asked).json()
        MessageWithIncludes.model_validate(found)
        assert (found["html"], found["text"]) == ("<p>Hi</p>", "See you on Friday.")
        assert found["headers"]


@pytest.mark.parametrize(
    "asked", ["", "raw", "html,", "HTML", "html, quoted", "%00", "html&include=html"]
)
def test_what_cannot_be_included_is_refused_with_its_path(
    api: ApiClient, asked: str
) -> None:
    sent = api.send(booking()).json()

    response = read(api, sent["id"], asked)

    assert (response.status_code, code_of(response)) == (400, "invalid_request")
    assert paths_of(response) == ["include"]


def test_mail_that_came_in_shows_hostile_headers_as_plain_text(
    api: ApiClient, identity: Identity
) -> None:
    asked = received(identity, raw_key="t/x/i/y/in/z.eml", html_sanitized="<p>a</p>")
    mime = b"Subject: =?utf-8?q?a=0d=0aBcc:_x?=\r\nX-A: \xff\x00\r\n\tb\r\n : c\r\n\r\n"
    objects.put(str(asked.raw_key), mime, metadata={})

    found = read(api, asked.public_id, "headers,html").json()

    assert found["headers"][0]["value"] == "=?utf-8?q?a=0d=0aBcc:_x?="
    assert found["headers"][1] == {"name": "X-A", "value": "\ufffd\ufffd\tb : c"}
    assert found["html"] == "<p>a</p>"


def test_a_message_whose_copy_is_gone_has_no_html_and_no_headers(
    api: ApiClient,
) -> None:
    sent = api.send(booking(html="<p>Hi</p>")).json()
    objects.delete(Message.objects.get().raw_key or "")

    found = read(api, sent["id"], "html,headers").json()

    assert (found["html"], found["headers"]) == (None, [])


def test_a_message_of_another_mailbox_has_nothing_to_include(api: ApiClient) -> None:
    unknown = read(api, "msg_01ARZ3NDEKTSV4RRFFQ69G5FAV", "html")

    assert (unknown.status_code, code_of(unknown)) == (404, "message_not_found")


def test_html_that_costs_too_much_is_left_out_for_good_and_flagged(
    api: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sanitizing, "CPU_SECONDS", 1)
    sent = api.send(booking(html=COSTLY)).json()

    found = read(api, sent["id"], "html,quoted").json()

    assert (found["html"], found["flags"]) == (None, ["body_truncated"])
    assert found["text"] == "See you on Friday."
    monkeypatch.setattr(stored_html, "sanitize_apart", None)  # nobody tries again
    assert read(api, sent["id"], "html").json()["html"] is None


def test_a_machine_too_busy_to_sanitise_says_so_and_remembers_nothing(
    api: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = api.send(booking(html="<p>Hi</p>")).json()
    with monkeypatch.context() as busy:
        busy.setattr(sanitizing, "WALL_SECONDS", 0.001)
        refused = read(api, sent["id"], "html")
    assert (refused.status_code, code_of(refused)) == (503, "unavailable")

    assert read(api, sent["id"], "html").json()["html"] == "<p>Hi</p>"


def test_only_so_many_bodies_are_sanitised_at_once(
    api: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = api.send(booking(html="<p>Hi</p>")).json()
    monkeypatch.setattr(sanitizing, "PLACE_SECONDS", 0.01)
    for _ in range(sanitizing.AT_ONCE):
        sanitizing._places.acquire()
    try:
        refused = read(api, sent["id"], "html")
    finally:
        sanitizing._places.release(sanitizing.AT_ONCE)

    assert (refused.status_code, code_of(refused)) == (503, "unavailable")
    assert read(api, sent["id"], "html").json()["html"] == "<p>Hi</p>"


def forward(api: ApiClient, message_id: str, query: str = "") -> Any:
    Thread.objects.update(lock_owner=None, lock_until=None)
    body = {"to": ["kim@example.org"], "html": "<p>See</p>"}
    return api.answer("forward", message_id, body, key="forward", query=query)


def test_a_forward_of_our_own_html_stores_its_copy_before_it_holds_anything(
    api: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = api.send(booking(html="<p>Hi</p>")).json()
    kept: list[str | None] = []
    hold = ledger.hold_key

    def watched(slot: ledger.Slot) -> None:
        kept.append(Message.objects.get(public_id=sent["id"]).html_sanitized)
        hold(slot)

    monkeypatch.setattr(ledger, "hold_key", watched)

    response = forward(api, sent["id"])

    assert kept == ["<p>Hi</p>"]
    assert "<blockquote><p>Hi</p></blockquote>" in page_of(response)


def test_a_forward_of_html_that_costs_too_much_carries_its_text(
    api: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sanitizing, "CPU_SECONDS", 1)
    sent = api.send(booking(html=COSTLY)).json()

    page = page_of(forward(api, sent["id"]))

    assert "See you on Friday." in page
    assert "<b><p>" not in page


def test_a_dry_run_of_a_forward_judges_the_html_and_keeps_no_copy(
    api: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = api.send(booking(html="<p>Hi</p>")).json()
    read_html: list[str | None] = []
    made = stored_html.sanitized_html

    def watched(message: Message, *, keep: bool) -> str | None:
        read_html.append(made(message, keep=keep))
        return read_html[-1]

    monkeypatch.setattr(stored_html, "sanitized_html", watched)

    assert forward(api, sent["id"], "?dry_run=true").status_code == 200

    assert read_html == ["<p>Hi</p>"]
    assert Message.objects.get().html_sanitized is None


def page_of(response: Any) -> str:
    assert response.status_code == 202, response.content
    message = Message.objects.get(public_id=response.json()["id"])
    part = modern(objects.get(message.raw_key or "")).get_body(("html",))
    assert part is not None
    return str(part.get_content())
