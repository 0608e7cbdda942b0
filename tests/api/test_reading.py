"""GET …/messages, …/messages/{id} and …/attempts."""

import uuid
from typing import Any

import pytest

from core.clock import database_now
from delivery.models import Attempt, Delivery
from mailboxes.models import Identity, Message
from outbound.api.schemas import AttemptList, MessageOut, MessagePage
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

    AttemptList.model_validate(body)
    assert [attempt["n"] for attempt in body["data"]] == [1, 2]
    assert set(body["data"][0]) == {
        *("n", "provider", "claimed_at", "phase", "finished_at"),
        *("result", "code", "detail"),
    }


def test_a_list_takes_the_same_few_statements_however_long(
    api: ApiClient, django_assert_max_num_queries: Any
) -> None:
    for n in range(6):
        api.send(booking(labels=["a"]), key=f"k{n}")
    api.get(api.path)

    with django_assert_max_num_queries(6):
        page = api.get(api.path).json()

    assert len(page["data"]) == 6


def test_a_head_request_is_answered_like_a_get(api: ApiClient) -> None:
    response = api.request(
        "HEAD", api.path, headers={"Authorization": f"Bearer {api.secret}"}
    )

    assert response.status_code == 200
    assert response.content == b""
