"""The content of mail is for those who may read it, and nothing in it runs."""

import pytest
from django.urls import reverse

from core import objects
from mailboxes.models import Message
from tests.factories import MessageFactory
from tests.support.staff import browser

pytestmark = pytest.mark.django_db


@pytest.fixture
def mail() -> Message:
    """A message with text, HTML and a source."""
    found: Message = MessageFactory.create(
        text="the secret words", html_sanitized="<p>the secret page</p>"
    )
    objects.put(
        f"tests/{found.public_id}", b"Subject: x\r\n\r\nraw <b>words", metadata={}
    )
    Message.objects.filter(pk=found.pk).update(raw_key=f"tests/{found.public_id}")
    return found


def page(mail: Message, name: str) -> str:
    return reverse(f"admin:mailboxes_message_{name}", args=(mail.pk,))


def test_a_viewer_sees_the_message_but_none_of_its_content(mail: Message) -> None:
    client = browser("viewer")

    shown = client.get(page(mail, "change")).content.decode()

    assert mail.public_id in shown
    assert "the secret words" not in shown
    assert page(mail, "html") not in shown
    assert client.get(page(mail, "html")).status_code == 403
    assert client.get(page(mail, "source")).status_code == 403


def test_support_reads_text_frame_and_source(mail: Message) -> None:
    client = browser("support")

    shown = client.get(page(mail, "change")).content.decode()
    frame = client.get(page(mail, "html"))
    source = client.get(page(mail, "source"))

    assert "the secret words" in shown
    assert frame.content == b"<p>the secret page</p>"
    assert source.content == b"Subject: x\r\n\r\nraw <b>words"
    assert source["Content-Type"].startswith("text/plain")


@pytest.mark.parametrize("name", ["html", "source"])
def test_content_is_handed_out_so_that_it_cannot_act(mail: Message, name: str) -> None:
    answer = browser("support").get(page(mail, name))

    policy = answer["Content-Security-Policy"]
    assert policy.startswith("sandbox;")
    assert "default-src 'none'" in policy
    assert "script" not in policy
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert "no-store" in answer["Cache-Control"]


def test_a_source_that_is_gone_says_so(mail: Message) -> None:
    Message.objects.filter(pk=mail.pk).update(raw_key="tests/nowhere")

    assert browser("support").get(page(mail, "source")).status_code == 410
