"""Reading mail that came in: what it says, within bounds, and never an error."""

import time
from datetime import UTC, datetime
from email.message import EmailMessage

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core.html_text import text_from_html
from inbound.classify import looks_of
from inbound.parse import DEPTH_LIMIT, PARTS_LIMIT, ParsedMail, parse
from inbound.quoting import extracted_text
from mailboxes.recipients import Party
from tests.support.hostile_mail import HOSTILE


def read(raw: bytes) -> ParsedMail:
    """Do all that is done with a message before the transaction, but for the HTML."""
    mail = parse(raw)
    looks_of(mail)
    extracted_text(mail.text or text_from_html((mail.html or "")[:10_000]))
    return mail


def assert_storable(mail: ParsedMail) -> None:
    """Assert that every text of a mail fits its column."""
    names = [party.name for party in (*mail.senders, *mail.named, *mail.reply_to)]
    addresses = [party.address for party in (*mail.senders, *mail.named)]
    files = [(file.filename, file.content_type, file.content_id) for file in mail.files]
    texts = [mail.subject, mail.text, mail.html, *names, *addresses, mail.message_id]
    texts += [text for file in files for text in file]
    texts += [*mail.in_reply_to, *mail.references]
    for text in filter(None, texts):
        assert "\x00" not in text
        text.encode("utf-8")
    assert len(mail.subject) <= 998
    assert not any(ord(character) < 32 for character in mail.subject)
    assert len(mail.to) <= 200
    assert len(mail.references) <= 200
    assert all(len(name or "") <= 256 for name in names)
    assert all(len(address) <= 320 for address in addresses)
    for name, kind, _ in files:
        assert "/" in kind
        assert name is None or not {"/", "\\"} & set(name)


@pytest.mark.parametrize("name", HOSTILE)
def test_malformed_mail_is_read_within_seconds(name: str) -> None:
    started = time.process_time()

    mail = read(HOSTILE[name])

    assert time.process_time() - started < 10
    assert_storable(mail)


@given(st.binary(max_size=400))
@example(b"Content-Type: multipart/mixed; boundary=x\n\n--x\n\n--x--")
def test_any_octets_are_a_message(raw: bytes) -> None:
    assert_storable(read(raw))


_FIELDS = st.sampled_from(
    [
        *("From", "To", "Cc", "Reply-To", "Subject", "Date", "Message-ID"),
        *("In-Reply-To", "References", "Content-Type", "Content-Disposition"),
        *("Content-Transfer-Encoding", "Content-ID", "Precedence", "Auto-Submitted"),
    ]
)
_PIECES = st.sampled_from(
    [
        *("multipart/mixed", "text/html", "message/rfc822", "boundary=b", "charset="),
        *("=?utf-8?q?", "?=", '"', "(", ")", "<", ">", "@", ";", ",", "=", "*0*=", "b"),
        *("filename", "utf-7", "base64", "\xe9", "\r\n ", "\x00", "--b", "'", "%", ":"),
    ]
)
_VALUES = st.lists(_PIECES, max_size=8).map("".join)


@given(
    st.lists(st.tuples(_FIELDS, _VALUES), max_size=6),
    st.lists(_PIECES | st.just("\r\n--b\r\n"), max_size=12).map("".join),
)
def test_any_mixture_of_marks_is_a_message(
    fields: list[tuple[str, str]], body: str
) -> None:
    head = "".join(f"{name}: {value}\r\n" for name, value in fields)

    assert_storable(read(f"{head}\r\n{body}".encode("latin-1")))


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=200))
def test_what_was_composed_is_read_again(text: str) -> None:
    made = EmailMessage()
    made["From"] = "Ada <ada@example.net>"
    made.set_content(text, cte="base64")

    mail = parse(made.as_bytes())

    assert mail.text == text
    assert mail.sender == Party("ada@example.net", "Ada")


def test_what_a_mail_says() -> None:
    raw = (
        b"From: =?utf-8?q?J=C3=B6?= <Jo@Example.NET>\r\n"
        b'To: "Lee, Kim" <lee@example.org>, team: pat@example.org;\r\n'
        b"Cc: x@example.org\r\nReply-To: desk@example.net\r\n"
        b"Subject: =?utf-8?b?w4RwZmVs?=\r\n und Birnen\r\n"
        b"Date: Mon, 14 Sep 2026 10:12:00 +0200\r\n"
        b"Message-ID: <A1@Example.NET>\r\n"
        b"In-Reply-To: <p@x.example> (and a comment)\r\n"
        b"References: <o@x.example>\r\n\t<p@x.example>\r\n\r\nHello\r\n"
    )

    mail = parse(raw)

    assert mail.sender == Party("jo@example.net", "Jö")
    assert mail.to == (
        Party("lee@example.org", "Lee, Kim"),
        Party("pat@example.org", None),
    )
    assert mail.cc == (Party("x@example.org"),)
    assert mail.reply_to == (Party("desk@example.net"),)
    assert mail.subject == "Äpfel und Birnen"
    assert mail.date == datetime(2026, 9, 14, 8, 12, tzinfo=UTC)
    assert mail.message_id == "A1@example.net"
    assert mail.in_reply_to == ("p@x.example",)
    assert mail.references == ("o@x.example", "p@x.example")
    assert (mail.text, mail.html, mail.files) == ("Hello", None, ())
    assert not mail.is_degraded


def test_bodies_come_first_and_the_rest_are_files() -> None:
    made = EmailMessage()
    made.set_content("plain")
    made.add_alternative("<p>page</p>", subtype="html")
    made.add_attachment(b"%PDF", "application", "pdf", filename="a/b\\c.pdf")
    made.add_attachment("more", filename="more.txt")
    made.add_attachment("BEGIN:VCALENDAR", subtype="calendar")

    mail = parse(made.as_bytes())

    assert mail.text == "plain"
    assert mail.html is not None
    assert mail.html.strip() == "<p>page</p>"
    names = [(file.filename, file.content_type) for file in mail.files]
    assert names == [
        ("c.pdf", "application/pdf"),
        ("more.txt", "text/plain"),
        (None, "text/calendar"),
    ]
    assert mail.files[0].content == b"%PDF"
    assert [file.index for file in mail.files] == [2, 3, 4]
    assert mail.has_calendar


def test_a_message_in_a_message_is_a_file_whose_ids_thread_nothing() -> None:
    inner = EmailMessage()
    inner["Message-ID"] = "<inner@x.example>"
    inner["References"] = "<older@x.example>"
    inner.set_content("inside")
    outer = EmailMessage()
    outer["Message-ID"] = "<outer@x.example>"
    outer.set_content("see below")
    outer.add_attachment(inner)

    mail = parse(outer.as_bytes())

    assert (mail.message_id, mail.references) == ("outer@x.example", ())
    assert mail.text == "see below"
    (file,) = mail.files
    assert file.content_type == "message/rfc822"
    assert b"inner@x.example" in file.content
    assert b"inside" in file.content


def test_what_stands_too_deep_is_kept_as_one_file() -> None:
    mail = parse(HOSTILE["forty levels"])

    assert mail.is_degraded
    assert mail.text is None
    (file,) = mail.files
    assert file.content_type == "multipart/mixed"
    assert b"deep" in file.content
    assert DEPTH_LIMIT < 40


def test_of_too_many_parts_the_first_are_kept() -> None:
    mail = parse(HOSTILE["a thousand parts"])

    assert mail.is_degraded
    assert mail.text == "x"
    assert len(mail.files) == PARTS_LIMIT - 2


@pytest.mark.parametrize("name", ["a thousand levels", "nested messages"])
def test_a_structure_that_means_ill_is_read_as_text(name: str) -> None:
    mail = parse(HOSTILE[name])

    assert mail.is_degraded
    assert mail.subject == "x"
    assert mail.sender == Party("a@example.net")
    assert mail.text is not None
    assert "deep" in mail.text


@pytest.mark.parametrize(
    "kind", ["multipart/encrypted; boundary=b", "application/pkcs7-mime"]
)
def test_encrypted_mail_has_no_body(kind: str) -> None:
    body = "--b\r\nContent-Type: text/plain\r\n\r\nx\r\n--b--\r\n"

    mail = parse(f"Content-Type: {kind}\r\n\r\n{body}".encode())

    assert mail.is_encrypted
    assert (mail.text, mail.html) == (None, None)


def test_signed_mail_is_no_encrypted_mail() -> None:
    raw = b"Content-Type: application/pkcs7-mime; smime-type=signed-data\r\n\r\nx"

    assert not parse(raw).is_encrypted
