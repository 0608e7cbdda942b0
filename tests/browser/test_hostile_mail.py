"""A mail that wants to act in the admin of whoever reads it, and cannot."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

import pytest
from django.urls import reverse
from playwright.sync_api import FrameLocator

from core.sanitize import sanitize
from mailboxes.models import Message
from tests.factories import MessageFactory
from tests.support.chromium import Tab

pytestmark = pytest.mark.django_db(transaction=True)

# as bad as if the sanitiser had let everything through: the frame alone must hold
HTML = """
<script>top.document.title = "owned"; fetch("/admin/?leak")</script>
<img src="http://127.0.0.1:{port}/pixel.png">
<img src=x onerror="top.document.title='owned'">
<style>@import url("http://127.0.0.1:{port}/steal.css"); body { background:
url("http://127.0.0.1:{port}/bg.png") }</style>
<link rel="stylesheet" href="http://127.0.0.1:{port}/link.css">
<form id="f" action="/admin/logout/" method="post"><button>Log in again</button></form>
<iframe src="http://127.0.0.1:{port}/frame"></iframe>
<meta http-equiv="refresh" content="0;url=http://127.0.0.1:{port}/refresh">
<a href="javascript:top.document.title='owned'" id="link">click me</a>
<object data="http://127.0.0.1:{port}/object"></object><svg onload="top.alert(1)"></svg>
<p id="seen">the mail itself</p>
"""
WORDS = "<script>document.title='owned'</script>"


class Elsewhere:
    """A host that the mail would like to be asked; it keeps what each caller said."""

    def __init__(self) -> None:
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listening.getsockname()[1]
        self.heard: list[bytes] = []
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while True:
            try:
                caller, _ = self.listening.accept()
            except OSError:
                return
            with caller:
                caller.settimeout(0.5)
                with contextlib.suppress(OSError):
                    self.heard.append(caller.recv(1000))


@pytest.fixture
def elsewhere() -> Iterator[Elsewhere]:
    """A host on this machine; it is gone after the test."""
    found = Elsewhere()
    yield found
    found.listening.close()


def read(tab: Callable[..., Tab], mail: Message) -> tuple[Tab, FrameLocator]:
    """Open the page of a mail, and its HTML."""
    desk = tab("support")
    desk.open(reverse("admin:mailboxes_message_change", args=(mail.pk,)))
    desk.do(lambda page: page.click("summary"))
    frame = desk.do(lambda page: page.frame_locator("iframe.pm-mail"))
    assert desk.do(lambda _: frame.locator("text=the mail itself").count()) == 1
    return desk, frame


def written(html: str) -> Message:
    """Store a mail whose every part is hostile."""
    mail: Message = MessageFactory.create(
        subject=WORDS, text=WORDS, html_sanitized=html, from_name=WORDS
    )
    return mail


def test_html_as_it_is_stored_calls_nobody(
    tab: Callable[..., Tab], elsewhere: Elsewhere
) -> None:
    html = HTML.replace("{port}", str(elsewhere.port))
    desk, _ = read(tab, written(sanitize(html).html))

    desk.do(lambda page: page.wait_for_timeout(700))

    assert elsewhere.heard == []
    assert "owned" not in desk.do(lambda page: page.title())
    assert desk.outside == []


def test_were_it_stored_as_it_came_the_frame_alone_would_hold(
    tab: Callable[..., Tab], elsewhere: Elsewhere
) -> None:
    desk, frame = read(tab, written(HTML.replace("{port}", str(elsewhere.port))))

    desk.do(lambda _: frame.locator("#link").click(force=True))
    desk.do(lambda _: frame.locator("button").click(force=True))
    desk.do(lambda page: page.wait_for_timeout(700))

    # Chromium opens a connection for a frame before it asks whether it may load one
    assert b"".join(elsewhere.heard) == b""
    assert "owned" not in desk.do(lambda page: page.title())
    assert not [url for url in desk.requests if "leak" in url or "logout" in url]
    desk.open("/admin/")
    assert "Log in" not in desk.do(lambda page: page.title())
