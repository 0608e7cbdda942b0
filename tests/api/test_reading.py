"""GET …/messages, …/messages/{id} and …/attempts."""

import uuid
from datetime import timedelta
from typing import Any

import pytest

from core.clock import database_now
from delivery.models import Attempt, Delivery
from mailboxes.models import Identity, Message
from outbound.api.schemas import AttemptPage, MessageOut, MessagePage
from tests.factories import AddressFactory, QueuedMessageFactory
from tests.support.answering import received
from tests.support.api import ApiClient, booking, code_of, paths_of

pytestmark = pytest.mark.django_db


def test_a_message_is_read_as_it_was_accepted(api: ApiClient) -> None:
    file = {"filename": "a.txt", "content_type": "text/plain", "content_base64": "aGk="}
    sent = api.send(
        booking(
            cc=[{"address": "lee@example.org", "name": "Lee"}],
            bcc=["boss@example.org"],
            labels=["b", "a"],
            metadata={"k": "v"},
            attachments=[file],
        )
    ).json()

    stored = api.get(f"{api.path}/{sent['id']}").json()

    assert sent.pop("deduplicated") is False
    assert stored == sent
    MessageOut.model_validate(stored)
    assert stored["attachments"][0]["size"] == 2


@pytest.mark.parametrize("status", ["hidden", "throttled", "quarantined"])
def test_mail_that_may_not_be_seen_is_not_there(
    api: ApiClient, identity: Identity, status: str
) -> None:
    unseen = received(identity, status=status)

    answer = api.get(f"{api.path}/{unseen.public_id}")

    assert code_of(answer) == "message_not_found"
    assert api.get(api.path).json()["data"] == []


def test_a_message_shows_what_became_of_it(api: ApiClient) -> None:
    sent = api.send(booking()).json()
    Message.objects.update(status="bounced", provider_message_id="smtp:h:1")
    Delivery.objects.update(
        status="bounced",
        smtp_code="550",
        enhanced_code="5.1.1",
        bounce_type="hard",
        reason="hard_bounce",
    )

    stored = api.get(f"{api.path}/{sent['id']}").json()

    assert (stored["status"], stored["provider_message_id"]) == ("bounced", "smtp:h:1")
    assert stored["deliveries"][0]["enhanced_code"] == "5.1.1"
    MessageOut.model_validate(stored)


def test_messages_are_listed_newest_first_page_by_page(api: ApiClient) -> None:
    sent = [api.send(booking(), key=f"k{n}").json()["id"] for n in range(5)]

    seen: list[str] = []
    cursor, pages = "", 0
    while pages == 0 or cursor:
        page: dict[str, Any] = api.get(f"{api.path}?limit=2{cursor}").json()
        MessagePage.model_validate(page)
        seen += [message["id"] for message in page["data"]]
        cursor = f"&cursor={page['next_cursor']}" if page["next_cursor"] else ""
        pages += 1

    assert seen == sent[::-1]
    assert pages == 3


@pytest.fixture
def mail(api: ApiClient, identity: Identity) -> dict[str, Any]:
    """Three messages: one sent, one sent and bounced, one received."""
    sent = api.send(booking(labels=["a"]), key="k1").json()
    bounced = api.send(booking(labels=["a", "b"]), key="k2").json()
    Message.objects.filter(public_id=bounced["id"]).update(status="bounced")
    came = received(identity, received_at=database_now() + timedelta(hours=1))
    received(identity, came.thread, status="hidden")
    return {
        "sent": sent,
        "bounced": bounced,
        "came": {"id": came.public_id, "thread_id": came.thread.public_id},
    }


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("direction=outbound", ["bounced", "sent"]),
        ("direction=inbound", ["came"]),
        ("status=bounced", ["bounced"]),
        ("status=received", ["came"]),
        ("label=a", ["bounced", "sent"]),
        ("label=b", ["bounced"]),
        ("label=c", []),
        ("thread_id={came[thread_id]}", ["came"]),
        ("thread_id=thr_00000000000000000000000000", []),
        ("after={sent[sent_at]}", ["came", "bounced"]),
        ("before={bounced[sent_at]}", ["sent"]),
        ("label=a&status=queued&direction=outbound", ["sent"]),
    ],
)
def test_messages_are_found_by_what_they_are(
    api: ApiClient, mail: dict[str, Any], query: str, found: list[str]
) -> None:
    page = api.get(f"{api.path}?{query.format(**mail)}").json()

    assert [m["id"] for m in page["data"]] == [mail[name]["id"] for name in found]


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("thread_id=x", "thread_id"),
        ("direction=up", "direction"),
        ("status=hidden", "status"),
        ("status=", "status"),
        ("label=A", "label"),
        ("after=1", "after"),
        ("include=html", "include"),
    ],
)
def test_a_filter_of_another_form_is_refused_with_its_name(
    api: ApiClient, query: str, path: str
) -> None:
    response = api.get(f"{api.path}?{query}")

    assert (code_of(response), paths_of(response)) == ("invalid_request", [path])


def test_a_thread_of_somebody_else_is_an_empty_list(api: ApiClient) -> None:
    foreign = received(AddressFactory.create().identity)

    page = api.get(f"{api.path}?thread_id={foreign.thread.public_id}").json()

    assert page == {"data": [], "next_cursor": None}


@pytest.mark.parametrize(
    ("row", "trust"),
    [
        ({}, (False, False, [])),
        ({"known_sender": True}, (True, False, [])),
        ({"known_sender": False, "automated": {"hop": 2}}, (False, False, [])),
        ({"kind": "automated"}, (False, True, [])),
        ({"kind": "dsn"}, (False, True, [])),
        ({"kind": "list"}, (False, False, [])),
        ({"kind": "list", "automated": {"evidence": ["x"]}}, (False, True, [])),
        ({"flags": ["hidden_text", "encrypted"]}, (False, False, ["hidden_text"])),
    ],
)
def test_mail_that_came_in_says_how_far_it_can_be_trusted(
    api: ApiClient, identity: Identity, row: dict[str, Any], trust: tuple[Any, ...]
) -> None:
    message = received(identity, **row)

    shown = api.get(f"{api.path}/{message.public_id}").json()

    MessageOut.model_validate(shown)
    known, automated, flags = trust
    assert shown["trust"] == {
        "known_sender": known,
        "automated": automated,
        "flags": flags,
    }
    assert set(shown["flags"]) == set(row.get("flags", [])) - set(flags)
    assert shown["deliveries"] is None


def test_a_list_holds_the_messages_of_its_identity_alone(api: ApiClient) -> None:
    QueuedMessageFactory.create(
        thread__identity=AddressFactory.create().identity,
    )

    assert api.get(api.path).json() == {"data": [], "next_cursor": None}


@pytest.mark.parametrize("limit", ["0", "101", "-1", "x", "", "1.5", "٣", "9" * 5000])
def test_a_limit_out_of_range_is_refused(api: ApiClient, limit: str) -> None:
    response = api.get(f"{api.path}?limit={limit}")

    assert (code_of(response), paths_of(response)) == ("invalid_request", ["limit"])


@pytest.mark.parametrize("cursor", ["", "x", "c_", "c_%FF", "c_bXNnXw==", "c_é"])
def test_what_is_no_cursor_is_refused(api: ApiClient, cursor: str) -> None:
    response = api.get(f"{api.path}?cursor={cursor}")

    assert (code_of(response), paths_of(response)) == ("invalid_request", ["cursor"])


def test_a_cursor_of_another_mailbox_is_refused(
    api: ApiClient, identity: Identity
) -> None:
    for n in range(2):
        api.send(booking(), key=f"k{n}")
    cursor = api.get(f"{api.path}?limit=1").json()["next_cursor"]
    sibling = AddressFactory.create(identity__tenant=identity.tenant).identity

    response = api.get(f"/v1/identities/{sibling.id}/messages?cursor={cursor}")

    assert paths_of(response) == ["cursor"]


def test_attempts_are_listed_oldest_first(api: ApiClient) -> None:
    sent = api.send(booking()).json()
    message = Message.objects.get(public_id=sent["id"])
    for n in (2, 1):
        Attempt.objects.create(
            message=message,
            tenant=message.tenant,
            n=n,
            provider="smtp",
            claim_token=uuid.uuid4(),
            claimed_at=database_now(),
            phase="answered",
            from_address=message.from_address or "",
        )

    body = api.get(f"{api.path}/{sent['id']}/attempts").json()

    AttemptPage.model_validate(body)
    assert [attempt["n"] for attempt in body["data"]] == [1, 2]
    first = api.get(f"{api.path}/{sent['id']}/attempts?limit=1").json()
    cursor = first["next_cursor"]
    rest = api.get(f"{api.path}/{sent['id']}/attempts?limit=1&cursor={cursor}").json()
    assert [page["data"][0]["n"] for page in (first, rest)] == [1, 2]
    assert set(body["data"][0]) == {
        *("n", "provider", "claimed_at", "phase", "finished_at"),
        *("result", "code", "detail"),
    }


def test_a_head_request_is_answered_like_a_get(api: ApiClient) -> None:
    response = api.request(
        "HEAD", api.path, headers={"Authorization": f"Bearer {api.secret}"}
    )

    assert response.status_code == 200
    assert response.content == b""
