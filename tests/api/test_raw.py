"""GET …/messages/{id}/raw: the bytes, and headers that keep them from being run."""

from typing import Any

import pytest

from core import objects
from core.errors import ObjectStoreAway
from mailboxes.models import Identity, Message
from tests.support.answering import received, with_file
from tests.support.api import ApiClient, booking, code_of
from tests.support.mail_reader import modern

pytestmark = pytest.mark.django_db

INBOUND = b"From: jo@example.net\r\nSubject: <script>\r\n\r\nIs Friday fine?\r\n"


def raw_inbound(identity: Identity, **changes: Any) -> Message:
    key = f"t/{identity.tenant_id}/i/{identity.id}/m/x/raw.eml"
    objects.put(key, INBOUND, metadata={})
    return received(identity, raw_key=key, **changes)


def test_the_sent_copy_is_handed_out_without_bcc(api: ApiClient) -> None:
    sent = api.send(booking(bcc=["boss@example.org"])).json()
    stored = Message.objects.get()

    response = api.get(f"{api.path}/{sent['id']}/raw")

    assert response.status_code == 200
    assert response.content == objects.get(stored.raw_key or "")
    mail = modern(response.content)
    assert mail["Subject"] == "Your booking"
    assert mail["Bcc"] is None
    assert b"boss" not in response.content


def test_what_came_in_is_handed_out_as_it_was(
    api: ApiClient, identity: Identity
) -> None:
    message = raw_inbound(identity)

    response = api.get(f"{api.path}/{message.public_id}/raw", Accept="message/rfc822")

    assert response.content == INBOUND


@pytest.mark.parametrize("kind", ["raw", "attachment"])
def test_bytes_come_with_headers_that_keep_them_from_being_run(
    api: ApiClient, identity: Identity, kind: str
) -> None:
    message = raw_inbound(identity)
    file = with_file(message, b"<script>", content_type="text/html", filename="é.html")
    path = f"{api.path}/{message.public_id}"
    paths = {"raw": f"{path}/raw", "attachment": f"{path}/attachments/{file.id}"}
    types = {"raw": "message/rfc822", "attachment": "application/octet-stream"}
    names = {"raw": f'"{message.public_id}.eml"', "attachment": "%C3%A9.html"}

    response = api.get(paths[kind])

    assert response.headers["Content-Type"] == types[kind]
    assert response.headers["Content-Disposition"].startswith("attachment; filename=")
    assert names[kind] in response.headers["Content-Disposition"]
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert response.headers["Content-Security-Policy"] == "sandbox"
    assert response.headers["Cache-Control"] == "private, no-store"


def test_a_head_request_tells_the_same_without_the_bytes(
    api: ApiClient, identity: Identity
) -> None:
    path = f"{api.path}/{raw_inbound(identity).public_id}/raw"
    key = {"Authorization": f"Bearer {api.secret}"}

    response = api.request("HEAD", path, headers=key)

    assert (response.status_code, response.content) == (200, b"")
    assert response["Content-Length"] == str(len(INBOUND))
    assert response["Content-Type"] == "message/rfc822"


@pytest.mark.parametrize("how", ["object", "column"])
def test_bytes_that_are_no_longer_kept_are_gone(
    api: ApiClient, identity: Identity, how: str
) -> None:
    message = raw_inbound(identity)
    if how == "object":
        objects.delete(message.raw_key or "")
    else:
        Message.objects.update(raw_key=None)

    response = api.get(f"{api.path}/{message.public_id}/raw")

    assert (response.status_code, code_of(response)) == (410, "raw_expired")
    assert response.json()["error"]["retryable"] is False
    assert response.json()["error"]["fix"]
    # the message itself is still there
    assert api.get(f"{api.path}/{message.public_id}").status_code == 200


@pytest.mark.parametrize("route", ["raw", "attachments"])
def test_a_store_that_is_away_is_a_503(
    api: ApiClient, identity: Identity, route: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = raw_inbound(identity)
    path = f"{api.path}/{message.public_id}/{route}"
    if route == "attachments":
        path += f"/{with_file(message).id}"

    def away(key: str) -> bytes:
        raise ObjectStoreAway("the object store does not answer")

    monkeypatch.setattr(objects, "get", away)
    response = api.get(path)

    assert (response.status_code, code_of(response)) == (503, "unavailable")


@pytest.mark.parametrize("status", ["hidden", "throttled", "quarantined"])
def test_the_bytes_of_unseen_mail_are_not_there(
    api: ApiClient, identity: Identity, status: str
) -> None:
    message = raw_inbound(identity, status=status)
    file = with_file(message)
    path = f"{api.path}/{message.public_id}"

    raw, attached = api.get(f"{path}/raw"), api.get(f"{path}/attachments/{file.id}")

    assert (raw.status_code, code_of(raw)) == (404, "message_not_found")
    assert (attached.status_code, code_of(attached)) == (404, "attachment_not_found")


def test_a_mailbox_that_is_being_deleted_still_shows_its_files(
    api: ApiClient, identity: Identity
) -> None:
    message = raw_inbound(identity)
    file = with_file(message)
    Identity.objects.update(status="deleting")
    path = f"{api.path}/{message.public_id}"

    assert api.get(f"{path}/raw").status_code == 200
    assert api.get(f"{path}/attachments/{file.id}").status_code == 200
