"""The structured body: what was composed comes back, and nothing else."""

import base64
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.text import header_fault
from outbound.compose import Attachment, ComposeInput, Mailbox, compose
from outbound.transports.base import OutgoingMessage
from outbound.transports.cloudflare_body import body_of
from outbound.words import decoded_words, encoded_words

MESSAGE_ID = "msg_01J00000000000000000000000"
SENT_AT = datetime(2026, 10, 9, 8, 30, tzinfo=UTC)
FROM = Mailbox("bookings@acme.example", "Acme Bookings")
TO = Mailbox("jo@example.net", "Jo")
HURTING = ["=?utf-8?q?x?=", 'a "b" c', "b, <c@d.example>", "Zoë (Café)", "\\", "☂" * 90]


def fields(
    *recipients: str, journal: str | None = None, **changes: object
) -> dict[str, Any]:
    """Return the body's fields for a message that says this."""
    values = {"from_": FROM, "subject": "Hi", "to": (TO,), "text": "Hello."} | changes
    composed = compose(
        ComposeInput(message_id=MESSAGE_ID, sent_at=SENT_AT, **values)  # type: ignore[arg-type]  # a test names only what it changes
    )
    found: dict[str, Any] = json.loads(
        body_of(
            OutgoingMessage(
                message_id=MESSAGE_ID,
                rfc_message_id=composed.rfc_message_id,
                domain="acme.example",
                from_address=FROM.address,
                recipients=recipients or (TO.address,),
                mime=composed.mime,
                journal_bcc=journal,
            )
        )
    )
    return found


def test_an_ordinary_mail_has_these_fields_and_no_other() -> None:
    assert fields(text="Hello.\nBye.", html="<p>Hello</p>") == {
        "from": {"address": "bookings@acme.example", "name": "Acme Bookings"},
        "to": [{"address": "jo@example.net", "name": "Jo"}],
        "subject": "Hi",
        "text": "Hello.\nBye.",
        "html": "<p>Hello</p>",
    }


def test_reply_to_and_custom_headers_go_in_their_own_fields() -> None:
    found = fields(
        reply_to=Mailbox("bookings+t03k@acme.example", "Acme Bookings"),
        headers=(
            ("X-Pylota-Mail-Hop", "1"),
            ("Auto-Submitted", "auto-replied"),
            ("X-Name", "Zoë"),
            ("List-Unsubscribe", "<https://acme.example/u>, <mailto:u@acme.example>"),
            ("List-Unsubscribe-Post", "List-Unsubscribe=One-Click"),
        ),
        in_reply_to="a@b.example",
        references=tuple(f"{n}{'x' * 60}@b.example" for n in range(12)),
    )

    assert found["reply_to"] == {
        "address": "bookings+t03k@acme.example",
        "name": "Acme Bookings",
    }
    assert found["headers"] == {
        "In-Reply-To": "<a@b.example>",
        "References": " ".join(f"<{n}{'x' * 60}@b.example>" for n in range(12)),
        "X-Pylota-Mail-Hop": "1",
        "Auto-Submitted": "auto-replied",
        "X-Name": "Zoë",
        "List-Unsubscribe": "<https://acme.example/u>, <mailto:u@acme.example>",
        "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
    }


def test_recipients_come_from_the_envelope_and_their_fields_from_the_headers() -> None:
    # Given a mail to two, a copy to one, and one that no header names
    found = fields(
        *("b@x.example", "c@x.example", "hidden@x.example"),
        to=(Mailbox("a@x.example", "A"), Mailbox("b@x.example", "B")),
        cc=(Mailbox("c@x.example"),),
    )

    # Then who is not to get it any more is in no field, and the hidden one is BCC
    assert found["to"] == [{"address": "b@x.example", "name": "B"}]
    assert found["cc"] == [{"address": "c@x.example"}]
    assert found["bcc"] == [{"address": "hidden@x.example"}]


def test_a_mail_to_bcc_alone_names_nobody_else() -> None:
    found = fields("hidden@x.example", to=())

    assert "to" not in found
    assert found["bcc"] == [{"address": "hidden@x.example"}]


def test_the_journal_is_one_more_bcc() -> None:
    found = fields(journal="journal+a.b@agents.example")

    assert found["bcc"] == [{"address": "journal+a.b@agents.example"}]
    assert found["to"] == [{"address": "jo@example.net", "name": "Jo"}]


def test_files_keep_their_bytes_names_and_places() -> None:
    name = "Übersicht; 2026 'final'.pdf" + "x" * 120
    found = fields(
        html='<img src="cid:logo@acme">',
        attachments=(
            Attachment(name, "application/pdf", "attachment", None, bytes(range(256))),
            Attachment("logo.png", "image/png", "inline", "logo@acme", b"\x89PNG"),
            Attachment(None, "text/plain", "attachment", "id@x", b"not the text\r\n"),
            Attachment("m.eml", "message/rfc822", "attachment", None, b"Subject: x"),
        ),
    )

    logo, pdf, plain, mail = found["attachments"]
    assert pdf == {
        "content": base64.b64encode(bytes(range(256))).decode(),
        "filename": name,
        "type": "application/pdf",
        "disposition": "attachment",
    }
    assert logo == {
        "content": base64.b64encode(b"\x89PNG").decode(),
        "filename": "logo.png",
        "type": "image/png",
        "disposition": "inline",
        "content_id": "logo@acme",
    }
    assert plain["filename"] == "file"
    assert "content_id" not in plain
    assert base64.b64decode(mail["content"]) == b"Subject: x"
    assert (found["text"], found["html"]) == ("Hello.", '<img src="cid:logo@acme">')


@pytest.mark.parametrize("name", HURTING)
def test_names_that_hurt_parsers_come_back_as_they_were(name: str) -> None:
    found = fields(
        *("a@x.example", "b@x.example"),
        from_=Mailbox(FROM.address, name),
        to=(Mailbox("a@x.example", name), Mailbox("b@x.example", name)),
        subject=name,
        headers=(("X-Word", name),),
    )

    assert found["from"] == {"address": FROM.address, "name": name}
    assert found["to"] == [
        {"address": "a@x.example", "name": name},
        {"address": "b@x.example", "name": name},
    ]
    assert found["subject"] == found["headers"]["X-Word"] == name


TEXTS = st.one_of(
    st.text(max_size=300),
    st.lists(st.sampled_from([*HURTING, " ", "x" * 80]), max_size=8).map("".join),
)
HEADERS = TEXTS.filter(lambda text: header_fault(text) is None)


@given(subject=HEADERS, name=HEADERS, text=TEXTS.filter(lambda t: not _surrogate(t)))
def test_whatever_was_composed_is_what_is_sent(
    subject: str, name: str, text: str
) -> None:
    found = fields(
        subject=subject,
        from_=Mailbox(FROM.address, name),
        text=text,
        html=f"<p>{text}",
    )

    assert found["subject"] == subject
    assert found["from"].get("name", "") == name
    assert found["text"] == text.replace("\r\n", "\n")
    assert found["html"] == f"<p>{text}".replace("\r\n", "\n")


def _surrogate(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)


@given(TEXTS.filter(lambda text: not _surrogate(text)))
def test_encoded_words_are_read_back(text: str) -> None:
    assert decoded_words(" ".join(encoded_words(text))) == text
