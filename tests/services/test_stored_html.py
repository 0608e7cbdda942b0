"""The sanitised copy of a sent body: made once, off the path of the send."""

from datetime import UTC, datetime

import pytest

from core import objects
from core.ids import new_id
from core.sanitize import INPUT_LIMIT
from mailboxes.models import Message
from mailboxes.statuses import Direction, MessageKind, MessageStatus
from outbound import stored_html
from outbound.compose import Attachment, ComposeInput, Mailbox, compose
from outbound.stored_html import html_of, sanitized_html
from tests.factories import MessageFactory

pytestmark = pytest.mark.django_db


def mime_of(html: str | None, text: str | None = "Hi") -> bytes:
    page = Attachment("page.html", "text/html", "attachment", None, b"<p>file</p>")
    message = ComposeInput(
        message_id=new_id("msg"),
        sent_at=datetime(2026, 5, 4, tzinfo=UTC),
        from_=Mailbox("ada@acme.example"),
        subject="Hi",
        to=(Mailbox("jo@x.example"),),
        text=text,
        html=html,
        attachments=(page,),
    )
    return compose(message).mime


def sent(html: str | None) -> Message:
    message = MessageFactory.create()
    assert message.raw_key is not None
    objects.put(message.raw_key, mime_of(html), metadata={})
    return message


@pytest.mark.parametrize(
    "html", ["<p>Grüße\r\nan alle</p>", "x" * 2000, "<p>a</p>\n.\n", "\u2028é\x85"]
)
@pytest.mark.parametrize("text", ["Hi", None])
def test_the_html_of_our_own_mail_is_read_back(html: str, text: str | None) -> None:
    found = html_of(mime_of(html, text))

    assert found is not None
    assert found.replace("\r\n", "\n").rstrip("\n") == html.replace(
        "\r\n", "\n"
    ).rstrip("\n")


def test_a_message_without_html_has_none_though_a_file_is_html() -> None:
    assert html_of(mime_of(None)) is None


def test_the_copy_is_made_once_and_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    message = sent("<p>Hi <script>x</script><img src='https://x.example/p'></p>")

    assert sanitized_html(message) == "<p>Hi <img></p>"

    monkeypatch.setattr(stored_html, "sanitize_apart", None)
    again = Message.objects.get(key=message.key)
    assert sanitized_html(again) == "<p>Hi <img></p>"


def test_that_there_is_no_html_is_remembered() -> None:
    message = sent(None)

    assert sanitized_html(message) is None

    message.refresh_from_db()
    assert message.html_sanitized == ""
    assert sanitized_html(message) is None


def test_a_sent_copy_that_is_gone_is_no_html_and_not_remembered() -> None:
    message = MessageFactory.create()

    assert sanitized_html(message) is None

    message.refresh_from_db()
    assert message.html_sanitized is None


def test_a_body_that_was_cut_says_so() -> None:
    message = sent("<p>a" + " " * INPUT_LIMIT)

    sanitized_html(message)

    message.refresh_from_db()
    assert message.flags == ["body_truncated"]


def test_mail_that_came_in_is_sanitised_where_it_comes_in() -> None:
    message = MessageFactory.create(
        direction=Direction.INBOUND,
        status=MessageStatus.RECEIVED,
        kind=MessageKind.NORMAL,
        operation=None,
        html_sanitized=None,
    )

    assert sanitized_html(message) is None
