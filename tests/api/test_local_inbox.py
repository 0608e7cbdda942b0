"""``/local/inbox`` shows caught mails to the person at this machine, and safely."""

import re
from email.message import EmailMessage
from pathlib import Path

import pytest
from django.test import Client
from pytest_django import Settings

from pylota.catcher.store import CaughtMail, caught

SCRIPT = "<script>alert(1)</script>"


@pytest.fixture
def mail(settings: Settings, tmp_path: Path) -> CaughtMail:
    """An empty catcher of the local environment."""
    settings.PM_DATA_DIR = tmp_path
    settings.LOCAL = True
    return caught(tmp_path)


def hostile() -> bytes:
    message = EmailMessage()
    message["From"] = "b@agents.test"
    message["To"] = "jo@example.net"
    message["Subject"] = f"{SCRIPT} ‮evil"
    message["X-Note"] = SCRIPT
    message["Message-ID"] = "<m1@agents.test>"
    message.set_content(f"plain {SCRIPT}")
    message.add_alternative(
        f"<p>Hello</p>{SCRIPT}<img src=https://tracker.example/x.png>", subtype="html"
    )
    message.add_attachment(
        b"abc", maintype="text", subtype="csv", filename=f"{SCRIPT}.csv"
    )
    return bytes(message)


def test_an_empty_inbox_says_what_will_come(mail: CaughtMail, client: Client) -> None:
    page = client.get("/local/inbox")

    assert page.status_code == 200
    assert "Nothing yet" in page.content.decode()


def test_the_newest_mail_stands_first_and_links_to_itself(
    mail: CaughtMail, client: Client
) -> None:
    for n in (1, 2):
        mail.keep("b@agents.test", ["jo@example.net", "al@example.net"], _plain(n))

    page = client.get("/local/inbox").content.decode()

    assert page.index("Booking 2") < page.index("Booking 1")
    assert "2 mails caught" in page
    assert "and 1 more" in page
    link = re.search(r'href="(/local/inbox/[^"]+)"', page)
    assert link is not None
    assert "See you, 2" in client.get(link[1]).content.decode()


def test_nothing_in_a_hostile_mail_becomes_markup(
    mail: CaughtMail, client: Client
) -> None:
    kept = mail.keep(f'"{SCRIPT}"@agents.test', [f"{SCRIPT}@x.example"], hostile())

    for address in ("/local/inbox", f"/local/inbox/{kept.id}"):
        page = client.get(address)
        text = page.content.decode()
        assert "&lt;script&gt;" in text
        assert "<script" not in text
        assert "<img" not in text
        assert "default-src 'none'" in page["Content-Security-Policy"]
        # its own icon is a data: address, and nothing else may load
        assert "img-src data:;" in page["Content-Security-Policy"]


def test_html_is_shown_only_in_a_frame_without_scripts_and_remote_content(
    mail: CaughtMail, client: Client
) -> None:
    kept = mail.keep("b@agents.test", ["jo@example.net"], hostile())

    page = client.get(f"/local/inbox/{kept.id}").content.decode()
    framed = client.get(f"/local/inbox/{kept.id}/html")

    frame = (
        f'<iframe sandbox title="The mail\'s HTML" src="/local/inbox/{kept.id}/html"'
    )
    assert frame in page
    assert "<p>Hello</p>" in framed.content.decode()
    assert framed["Content-Security-Policy"].startswith(
        "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    )
    assert framed["X-Frame-Options"] == "SAMEORIGIN"


def test_the_source_is_plain_text_as_it_came(mail: CaughtMail, client: Client) -> None:
    raw = hostile()
    kept = mail.keep("b@agents.test", ["jo@example.net"], raw)

    answer = client.get(f"/local/inbox/{kept.id}/source")

    assert answer.content == raw
    assert answer["Content-Type"] == "text/plain; charset=utf-8"
    assert answer["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(
    "name", ["nothing", "00000000000000000000-00000000", "..%2Fendpoint", "a/b/c"]
)
def test_what_is_no_mail_is_not_found(
    mail: CaughtMail, client: Client, name: str
) -> None:
    assert client.get(f"/local/inbox/{name}").status_code == 404


@pytest.mark.parametrize("address", ["/local/inbox", "/local/inbox/x"])
def test_outside_the_local_environment_there_is_no_such_page(
    mail: CaughtMail, client: Client, settings: Settings, address: str
) -> None:
    mail.keep("b@agents.test", ["jo@example.net"], hostile())
    settings.LOCAL = False

    assert client.get(address).status_code == 404


def test_the_pages_are_only_looked_at(mail: CaughtMail, client: Client) -> None:
    assert client.post("/local/inbox").status_code == 405


def test_no_page_names_another_host(mail: CaughtMail, client: Client) -> None:
    kept = mail.keep("b@agents.test", ["jo@example.net"], _plain(1))

    for address in ("/local/inbox", f"/local/inbox/{kept.id}"):
        assert "//" not in client.get(address).content.decode().replace("data:,", "")


def _plain(n: int) -> bytes:
    message = EmailMessage()
    message["Subject"] = f"Booking {n}"
    message.set_content(f"See you, {n}")
    return bytes(message)
