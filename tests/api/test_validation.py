"""Every error of a body, with the path of the field; nothing is stored."""

import base64
import json
from typing import Any

import pytest

from mailboxes.models import Message
from outbound.models import LedgerEntry
from tests.support.api import ApiClient, booking, code_of, paths_of

pytestmark = pytest.mark.django_db

FILE = {
    "filename": "a.pdf",
    "content_type": "application/pdf",
    "content_base64": base64.b64encode(b"%PDF").decode(),
}


def assert_refused(response: Any, code: str, *paths: str) -> None:
    assert (response.status_code, code_of(response)) == (400, code), response.content
    assert paths_of(response) == list(paths)
    assert not Message.objects.exists()
    assert not LedgerEntry.objects.exists()


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"to": "jo@example.net"}, "to"),
        ({"to": [7]}, "to[0]"),
        ({"to": [{"name": "Jo"}]}, "to[0].address"),
        ({"to": [{"address": "jo@example.net", "nick": "J"}]}, "to[0].nick"),
        ({"cc": [None]}, "cc[0]"),
        ({"subject": 7}, "subject"),
        ({"text": ["a"]}, "text"),
        ({"html": True}, "html"),
        ({"labels": "a"}, "labels"),
        ({"labels": [1]}, "labels[0]"),
        ({"metadata": {"a": 1}}, "metadata.a"),
        ({"headers": {"X-A": None}}, "headers.X-A"),
        ({"kind": "newsletter"}, "kind"),
        ({"from_address": 1}, "from_address"),
        ({"attachments": [{}]}, "attachments[0].filename"),
        ({"attachments": [{**FILE, "disposition": "x"}]}, "attachments[0].disposition"),
        ({"thread_id": 1}, "thread_id"),
        ({"Subject": "x"}, "Subject"),
        ({"tenant_id": "ten_1"}, "tenant_id"),
        ({"to": ["a@b.example"] * 1001}, "to"),
    ],
)
def test_a_field_of_the_wrong_form_is_named(
    api: ApiClient, changes: dict[str, Any], path: str
) -> None:
    response = api.send(booking(**changes))

    assert code_of(response) == "invalid_request"
    assert path in paths_of(response)
    assert not Message.objects.exists()


def test_all_wrong_fields_are_listed_at_once(api: ApiClient) -> None:
    response = api.send({"to": [1], "text": 1, "nonsense": 1})

    assert sorted(paths_of(response)) == ["nonsense", "subject", "text", "to[0]"]


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"text": None}, "text"),
        ({"subject": "x" * 999}, "subject"),
        ({"labels": ["Upper"]}, "labels[0]"),
        ({"labels": ["ok", "x" * 65]}, "labels[1]"),
        ({"labels": [f"l{n}" for n in range(65)]}, "labels"),
        ({"metadata": {str(n): "x" for n in range(17)}}, "metadata"),
        ({"metadata": {"a": "é" * 257}}, "metadata.a"),
        ({"attachments": [FILE] * 33}, "attachments"),
        (
            {"attachments": [{**FILE, "content_base64": "?"}]},
            "attachments[0].content_base64",
        ),
        (
            {"attachments": [FILE, {**FILE, "content_type": "pdf"}]},
            "attachments[1].content_type",
        ),
        (
            {"attachments": [{**FILE, "content_type": "a/b\r\nX: y"}]},
            "attachments[0].content_type",
        ),
        (
            {"attachments": [{**FILE, "disposition": "inline"}]},
            "attachments[0].content_id",
        ),
        (
            {"attachments": [{**FILE, "content_id": "a\r\nb"}]},
            "attachments[0].content_id",
        ),
        ({"to": []}, "to"),
        ({"from_address": "somebody@else.example"}, "from_address"),
        ({"from_address": "no address"}, "from_address"),
        ({"headers": {"X-A": ""}}, "headers.X-A"),
        ({"headers": {"X-A": "x" * 2049}}, "headers.X-A"),
        ({"headers": {"Priority": "asap"}}, "headers.Priority"),
        ({"headers": {"X-A": "1", "x-a": "2"}}, "headers.x-a"),
        ({"headers": {f"X-{n}": "v" * 2000 for n in range(9)}}, "headers"),
    ],
)
def test_content_beyond_a_limit_is_named(
    api: ApiClient, changes: dict[str, Any], path: str
) -> None:
    assert_refused(api.send(booking(**changes)), "invalid_request", path)


@pytest.mark.parametrize(
    "name",
    [
        "Subject",
        "from",
        "Reply-To",
        "DKIM-Signature",
        "X-Pylota-Mail-Hop",
        "x-ai-generated",
        "List-Unsubscribe",
        "X Y",
        "X-Ä",
        "X-" + "a" * 99,
        "X-A:",
        "X-A\r\nBcc",
    ],
)
def test_a_header_that_callers_may_not_set_is_refused(
    api: ApiClient, name: str
) -> None:
    response = api.send(booking(headers={"X-Fine": "1", name: "v"}))

    shown = name.encode("ascii", "backslashreplace").decode()[:100]
    assert_refused(response, "header_not_allowed", f"headers.{shown}")


@pytest.mark.parametrize("break_", ["\r\n", "\r", "\n", "\x01", "\x7f", "\t"])
@pytest.mark.parametrize(
    ("field", "path"),
    [
        ("subject", "subject"),
        ("name", "to[0].name"),
        ("header", "headers.X-A"),
        ("address", "to[0]"),
    ],
)
def test_a_line_break_or_control_never_reaches_a_header(
    api: ApiClient, break_: str, field: str, path: str
) -> None:
    # reports, R31
    evil = f"a{break_}Bcc: x@example.org"
    changes: dict[str, dict[str, Any]] = {
        "subject": {"subject": evil},
        "name": {"to": [{"address": "jo@example.net", "name": evil}]},
        "header": {"headers": {"X-A": evil}},
        "address": {"to": [f"a{break_}b@example.net"]},
    }
    body = booking(**changes[field])

    code = "address_invalid" if field == "address" else "invalid_request"
    assert_refused(api.send(body), code, path)


@pytest.mark.parametrize("character", ["\u0085", "\u2028", "\u2029"])
def test_other_line_separators_are_data_and_come_back(
    api: ApiClient, character: str
) -> None:
    # reports, R31
    text, subject = f"a{character}b", f"s{character}t"

    sent = api.send(booking(text=text, subject=subject)).json()

    assert (sent["extracted_text"], sent["subject"]) == (text, subject)
    stored = api.get(f"{api.path}/{sent['id']}").json()
    assert (stored["extracted_text"], stored["subject"]) == (text, subject)


def test_a_file_name_is_cleaned_not_refused(api: ApiClient) -> None:
    evil = "../../etc/a\r\nBcc: x.pdf"

    sent = api.send(booking(attachments=[{**FILE, "filename": evil}])).json()

    assert sent["attachments"][0]["filename"] == "aBcc: x.pdf"


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"subject": "a\x00b"}, "subject"),
        ({"text": "\x00"}, "text"),
        ({"to": [{"address": "jo@example.net", "name": "\x00"}]}, "to[0].name"),
        ({"metadata": {"a": "\x00"}}, "metadata.a"),
        ({"attachments": [{**FILE, "filename": "\x00"}]}, "attachments[0].filename"),
        ({"text": "\ud800"}, "text"),
        ({"subject": "\udfff!"}, "subject"),
        ({"metadata": {"\ud83d": "x"}}, "metadata.\\ud83d"),
    ],
)
def test_what_the_database_cannot_store_is_refused_with_its_place(
    api: ApiClient, changes: dict[str, Any], path: str
) -> None:
    assert_refused(api.send(booking(**changes)), "invalid_request", path)


@pytest.mark.parametrize(
    "text",
    [
        " ",
        "nonsense",
        "[]",
        '"text"',
        "null",
        '{"a": NaN}',
        '{"a": -Infinity}',
        '{"a": 1e999}',
        f'{{"a": {"9" * 5000}}}',
        '{"a": ' + "[" * 5000 + "]" * 5000 + "}",
        '{"a": "\\u00zz"}',
        '{"a": "\x00"}',
        "\ufeff{}",
        '{"to": []',
    ],
)
def test_what_is_no_json_object_is_refused(api: ApiClient, text: str) -> None:
    assert_refused(api.send(text), "invalid_request")


@pytest.mark.parametrize("raw", [b"\xff\xfe{\x00}\x00", b'{"a":"\xed\xa0\x80"}'])
def test_what_is_no_utf8_is_refused(api: ApiClient, raw: bytes) -> None:
    assert_refused(api.send(raw), "invalid_request")


def test_a_name_that_stands_twice_is_refused(api: ApiClient) -> None:
    body = json.dumps(booking())[:-1] + ',"subject":"other"}'

    assert_refused(api.send(body), "invalid_request", "subject")


def test_a_whole_emoji_is_no_lone_surrogate(api: ApiClient) -> None:
    body = json.dumps(booking(subject="🎉"), ensure_ascii=True)

    assert api.send(body).json()["subject"] == "🎉"


def test_a_body_of_another_type_is_refused(api: ApiClient) -> None:
    response = api.request(
        "POST",
        api.path,
        data="to=jo",
        content_type="application/x-www-form-urlencoded",
        headers={"Authorization": f"Bearer {api.secret}", "Idempotency-Key": "k"},
    )

    assert_refused(response, "invalid_request")


@pytest.mark.parametrize(
    ("recipient", "code"),
    [
        ("", "address_invalid"),
        ("nobody", "address_invalid"),
        ("a@b@c", "address_invalid"),
        ("a b@example.com", "address_invalid"),
        ("a@localhost", "address_invalid"),
        ("a@[127.0.0.1]", "address_invalid"),
        ("x" * 65 + "@example.com", "address_invalid"),
        ("dörte@example.com", "address_unsupported"),
    ],
)
def test_a_recipient_that_is_no_address_is_named(
    api: ApiClient, recipient: str, code: str
) -> None:
    response = api.send(booking(cc=["ok@example.org", {"address": recipient}]))

    assert_refused(response, code, "cc[1]")


def test_a_message_with_too_many_recipients_is_refused(api: ApiClient) -> None:
    eleven = [f"r{n}@example.org" for n in range(11)]

    response = api.send(booking(to=eleven[:6], cc=eleven[6:8], bcc=eleven[8:]))

    assert_refused(response, "too_many_recipients")
    assert response.json()["error"]["details"] == {"limit": 10}


def test_ten_recipients_named_twice_are_still_ten(api: ApiClient) -> None:
    ten = [f"r{n}@example.org" for n in range(10)]

    assert api.send(booking(to=ten, cc=ten)).status_code == 202


def test_many_forbidden_headers_are_refused_in_a_short_answer(api: ApiClient) -> None:
    response = api.send(booking(headers={f"Z{n}{'z' * 300}": "v" for n in range(9000)}))

    assert code_of(response) == "header_not_allowed"
    assert len(response.content) < 50_000
