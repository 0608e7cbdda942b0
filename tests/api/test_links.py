"""Files too large for a message go by signed link, and every file can be had again."""

import base64
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from core import clock, objects
from mailboxes.key_services import create_key
from mailboxes.keyring_services import forget_keys, rotate_key
from mailboxes.models import Attachment, Identity, Message, Tenant
from mailboxes.scopes import Scope
from mailboxes.statuses import KeyPurpose
from outbound.policy import LARGEST_MESSAGE
from tests.factories import AddressFactory
from tests.support.answering import received, with_file
from tests.support.api import ApiClient, booking, code_of
from tests.support.mail_reader import modern

pytestmark = pytest.mark.django_db


def file(name: str, size: int, start: bytes = b"", **changes: Any) -> dict[str, Any]:
    content = base64.b64encode(start.ljust(size, b"x")).decode()
    return {
        "filename": name,
        "content_type": "text/html",
        "content_base64": content,
        **changes,
    }


@pytest.fixture
def linking(api: ApiClient) -> ApiClient:
    """A client whose tenant lets large files go by link."""
    Tenant.objects.update(policy={"large_attachments": "link", "link_ttl_hours": 2})
    return api


def send_large(api: ApiClient) -> tuple[Any, str]:
    """Send two files of which only one fits; return the answer and the link."""
    response = api.send(
        booking(
            html="<p>Hello</p>",
            attachments=[file("small.txt", 1_000), file("large.html", 4_000_000)],
        )
    )
    assert response.status_code == 202, response.content
    text = response.json()["extracted_text"]
    return response, next(word for word in text.split() if "/v1/links/" in word)


def test_the_largest_file_leaves_until_the_rest_fits(linking: ApiClient) -> None:
    response, url = send_large(linking)

    message = Message.objects.get()
    mail = modern(objects.get(message.raw_key or ""))
    assert [part.get_filename() for part in mail.iter_attachments()] == ["small.txt"]
    text, page = (mail.get_body((kind,)) for kind in ("plain", "html"))
    assert text is not None
    assert page is not None
    assert f"large.html (4.0 MB): {url} (available until " in text.get_content()
    assert f'<a href="{url}">large.html</a>' in page.get_content()
    assert [a["filename"] for a in response.json()["attachments"]] == [
        "small.txt",
        "large.html",
    ]
    assert (message.raw_size or 0) <= LARGEST_MESSAGE
    large = Attachment.objects.get(filename="large.html")
    assert len(objects.get(large.object_key)) == 4_000_000


def test_a_link_serves_the_file_with_headers_that_keep_it_from_being_run(
    linking: ApiClient, client: Client
) -> None:
    _, url = send_large(linking)

    response = client.get(url)

    assert response.status_code == 200
    assert response.content == b"x" * 4_000_000
    assert response["Content-Type"] == "application/octet-stream"  # whatever was said
    assert response["Content-Disposition"].startswith(
        'attachment; filename="large.html"'
    )
    assert response["X-Content-Type-Options"] == "nosniff"
    assert response["Content-Security-Policy"] == "sandbox"
    assert response["Cache-Control"] == "private, no-store"
    assert response["Referrer-Policy"] == "no-referrer"


def test_a_link_is_good_until_it_expires_and_never_says_why_not(
    linking: ApiClient, client: Client
) -> None:
    _, url = send_large(linking)
    clock.offset = timedelta(hours=1, minutes=59)
    assert client.get(url).status_code == 200

    broken = client.get(url[:-1] + ("A" if url[-1] != "A" else "B"))
    clock.offset = timedelta(hours=2, seconds=2)
    expired = client.get(url)
    clock.offset = timedelta(0)
    Message.objects.all().delete()
    gone = client.get(url)

    for response in (broken, expired, gone, client.get("/v1/links/x")):
        assert (response.status_code, code_of(response)) == (
            404,
            "attachment_not_found",
        )


@pytest.mark.parametrize("status", ["deleting", "deleted"])
def test_a_link_ends_with_its_mailbox(
    linking: ApiClient, client: Client, status: str
) -> None:
    _, url = send_large(linking)
    Identity.objects.update(status="paused")
    assert client.get(url).status_code == 200

    Identity.objects.update(status=status)

    assert code_of(client.get(url)) == "attachment_not_found"


@pytest.mark.parametrize(("revoke", "status"), [(False, 200), (True, 404)])
def test_a_link_outlives_the_turn_of_its_key_unless_that_is_revoked(
    linking: ApiClient, client: Client, revoke: bool, status: int
) -> None:
    _, url = send_large(linking)

    rotate_key(KeyPurpose.LINK, revoke_previous=revoke)
    forget_keys()  # what the end of the transaction does

    assert client.get(url).status_code == status


def test_without_the_policy_a_large_message_is_refused(api: ApiClient) -> None:
    response = api.send(booking(attachments=[file("large.bin", 4_000_000)]))

    assert (response.status_code, code_of(response)) == (413, "message_too_large")


def test_a_text_that_is_too_large_by_itself_is_refused_even_with_links(
    linking: ApiClient,
) -> None:
    response = linking.send(
        booking(text="x" * 5_300_000, attachments=[file("a.bin", 1_000)])
    )

    assert (response.status_code, code_of(response)) == (413, "message_too_large")


def test_the_size_is_judged_to_the_byte(api: ApiClient) -> None:
    probe = api.send(booking(attachments=[file("a", 3_000)]), key="probe")
    assert probe.status_code == 202
    overhead = (Message.objects.get().raw_size or 0) - _encoded(3_000)
    most = next(
        size
        for size in range(3_830_000, 3_800_000, -1)
        if _encoded(size) + overhead <= LARGEST_MESSAGE
    )

    fits = api.send(booking(attachments=[file("a", most)]), key="fits")
    left = LARGEST_MESSAGE - (Message.objects.order_by("-key")[0].raw_size or 0)
    text = booking()["text"] + "x" * left  # a byte each: it travels as it is
    full = api.send(booking(text=text, attachments=[file("a", most)]), key="full")
    text += "x"
    over = api.send(booking(text=text, attachments=[file("a", most)]), key="over")

    assert (fits.status_code, full.status_code) == (202, 202)
    assert Message.objects.order_by("-key")[0].raw_size == LARGEST_MESSAGE
    assert code_of(over) == "message_too_large"
    assert str(LARGEST_MESSAGE + 1) in over.json()["error"]["message"]


def _encoded(size: int) -> int:
    """Return the octets of base64 in lines of 76, each with its CRLF."""
    characters = (size + 2) // 3 * 4
    return characters + 2 * -(-characters // 76)


def test_a_file_that_was_sent_can_be_fetched_again(
    api: ApiClient, identity: Identity
) -> None:
    png = b"\x89PNG\r\n\x1a\n"
    shown = file("logo.png", 20, png, disposition="inline", content_id="logo@x")
    sent = api.send(booking(html="<img src='cid:logo@x'>", attachments=[shown])).json()
    attachment = sent["attachments"][0]

    response = api.get(f"{api.path}/{sent['id']}/attachments/{attachment['id']}")

    assert response.status_code == 200
    assert response.content == png.ljust(20, b"x")
    assert response["Content-Type"] == "image/png"
    assert response["Content-Security-Policy"] == "sandbox"


def test_a_file_needs_its_scope_and_its_mailbox(
    api: ApiClient, identity: Identity
) -> None:
    asked = received(identity)
    attachment = with_file(asked)
    risky = with_file(asked, risk="macro")
    path = f"{api.path}/{asked.public_id}/attachments"
    reader = create_key(
        name="r", tenant=identity.tenant, permissions=[Scope.MESSAGES_READ]
    )
    other = AddressFactory.create().identity
    stranger = ApiClient(create_key(name="s", tenant=other.tenant).secret, other.id)

    without = ApiClient(reader.secret, identity.id).get(f"{path}/{attachment.id}")
    abroad = stranger.get(f"{path}/{attachment.id}")

    assert (without.status_code, code_of(without)) == (403, "permission_denied")
    assert (abroad.status_code, code_of(abroad)) == (404, "identity_not_found")
    for missing in (risky.id, "att_" + "0" * 26, "x"):
        response = api.get(f"{path}/{missing}")
        assert (response.status_code, code_of(response)) == (
            404,
            "attachment_not_found",
        )
    assert api.get(f"{path}/{attachment.id}").content == b"%PDF-1.7"
