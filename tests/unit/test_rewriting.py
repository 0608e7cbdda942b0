"""A composed message under another sender: nothing else moves."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from outbound.compose import ComposeInput, Mailbox, compose
from outbound.mime import Attachment
from outbound.rewriting import with_sender

OWN = Mailbox("bookings@acme.example", "Acme")
PLATFORM = Mailbox("bookings.acme@agents.test", "Acme, “Car” Hire (Köln) " * 3)
MESSAGE = ComposeInput(
    message_id="msg_01K0000000000000000000000A",
    sent_at=datetime(2026, 11, 29, tzinfo=UTC),
    from_=OWN,
    to=(Mailbox("jo@example.net", "Jo"),),
    subject="From: me\u2019s Reply-To",
    text="From: somebody\r\n\r\nReply-To: somebody\r\n.\r\n",
    html="<p>hello</p>",
    headers=(("X-From", "From: x"), ("X-Long", "word " * 60)),
    attachments=(
        Attachment("a.txt", "text/plain", "attachment", None, b"From: in a file"),
    ),
)
ANSWERS = Mailbox("bookings.acme+t01.abcdefgh@agents.test", PLATFORM.name)


@pytest.mark.parametrize("had", [None, Mailbox("bookings+t01.aaaaaaaa@acme.example")])
@pytest.mark.parametrize("gets", [None, ANSWERS])
def test_the_message_is_as_if_composed_for_that_sender_but_for_its_message_id(
    had: Mailbox | None, gets: Mailbox | None
) -> None:
    own = compose(replace(MESSAGE, reply_to=had))
    wanted = compose(replace(MESSAGE, from_=PLATFORM, reply_to=gets))

    rewritten = with_sender(own.mime, from_=PLATFORM, reply_to=gets)

    assert rewritten == wanted.mime.replace(
        wanted.rfc_message_id.encode(), own.rfc_message_id.encode()
    )


def test_rewriting_twice_is_rewriting_once() -> None:
    once = with_sender(compose(MESSAGE).mime, from_=PLATFORM, reply_to=ANSWERS)
    assert with_sender(once, from_=PLATFORM, reply_to=ANSWERS) == once


def test_a_copy_without_a_sender_gets_one_in_front() -> None:
    assert with_sender(b"Subject: x\r\n\r\nhi\r\n", from_=OWN, reply_to=None) == (
        b"From: Acme <bookings@acme.example>\r\nSubject: x\r\n\r\nhi\r\n"
    )
