"""PATCH …/messages/{id}: labels, and whether it was read."""

from typing import Any

import pytest

from core.ids import new_id
from mailboxes.models import AuditRow, Identity, Label, Thread
from outbound.api.schemas import MessageOut
from tests.factories import AddressFactory
from tests.support.answering import counted, received
from tests.support.api import ApiClient, booking, code_of, paths_of

pytestmark = pytest.mark.django_db


def unread_of(api: ApiClient, thread: Thread) -> int:
    path = f"/v1/identities/{api.identity_id}/threads/{thread.public_id}"
    return int(api.get(path).json()["unread_count"])


def test_a_message_is_filed_under_words_and_taken_out_again(api: ApiClient) -> None:
    sent = api.send(booking(labels=["old", "kept"])).json()
    path = f"{api.path}/{sent['id']}"

    filed = api.patch(path, {"labels_add": ["new"], "labels_remove": ["old", "never"]})

    assert filed.status_code == 200
    MessageOut.model_validate(filed.json())
    assert filed.json()["labels"] == ["kept", "new"]
    assert api.get(path).json() == filed.json()


def test_the_thread_counts_what_is_unread(api: ApiClient, identity: Identity) -> None:
    first = received(identity)
    second = received(identity, first.thread)
    thread = counted(first.thread)
    path = f"{api.path}/{first.public_id}"

    counts = [unread_of(api, thread)]
    for change in (True, True, False, False, None):
        assert api.patch(path, {"read": change}).status_code == 200
        counts.append(unread_of(api, thread))
    api.patch(f"{api.path}/{second.public_id}", {"read": True})

    assert counts == [2, 1, 1, 2, 2, 2]
    assert unread_of(api, thread) == 1


def test_a_count_that_was_wrong_is_right_after_the_next_change(
    api: ApiClient, identity: Identity
) -> None:
    mail = received(identity)
    hidden = received(identity, mail.thread, status="hidden")
    thread = counted(mail.thread)
    Thread.objects.update(unread_count=17)

    api.patch(f"{api.path}/{mail.public_id}", {"read": True})

    assert unread_of(api, thread) == 0
    assert hidden.read is False


def test_a_sent_message_may_be_read_but_not_unread(api: ApiClient) -> None:
    path = f"{api.path}/{api.send(booking()).json()['id']}"

    refused = api.patch(path, {"read": False, "labels_add": ["a"]})

    assert (code_of(refused), paths_of(refused)) == ("invalid_request", ["read"])
    assert api.patch(path, {"read": True}).json()["labels"] == []


def test_a_message_has_64_labels_at_most(api: ApiClient) -> None:
    words = [f"l{n}" for n in range(64)]
    path = f"{api.path}/{api.send(booking(labels=words[:60])).json()['id']}"

    full = api.patch(path, {"labels_add": words})
    over = api.patch(path, {"labels_add": ["one-more"]})
    swapped = api.patch(path, {"labels_add": ["one-more"], "labels_remove": ["l0"]})

    assert full.json()["labels"] == sorted(words)
    assert (over.status_code, paths_of(over)) == (400, ["labels_add"])
    assert swapped.status_code == 200
    assert Label.objects.count() == 64


@pytest.mark.parametrize(
    ("body", "paths"),
    [
        ({"labels_add": ["no spaces"]}, ["labels_add[0]"]),
        ({"labels_remove": ["ok", 7]}, ["labels_remove[1]"]),
        ({"read": 0}, ["read"]),
        ({"archived": True}, ["archived"]),
        ({"status": "sent"}, ["status"]),
    ],
)
def test_a_change_of_another_form_is_refused_with_its_path(
    api: ApiClient, body: dict[str, Any], paths: list[str]
) -> None:
    path = f"{api.path}/{api.send(booking()).json()['id']}"

    response = api.patch(path, body)

    assert (code_of(response), paths_of(response)) == ("invalid_request", paths)


def test_a_change_without_a_body_is_refused(api: ApiClient) -> None:
    path = f"{api.path}/{api.send(booking()).json()['id']}"

    assert code_of(api.patch(path, None)) == "length_required"


def test_filing_is_audited_once_it_changes_something(api: ApiClient) -> None:
    sent = api.send(booking()).json()
    path = f"{api.path}/{sent['id']}"

    for _ in range(2):
        api.patch(path, {"labels_add": ["private"], "read": True})

    row = AuditRow.objects.get(action="message.file")
    assert (row.target_type, row.target_id) == ("message", sent["id"])
    assert "private" not in str(row.details)


@pytest.mark.parametrize("status", ["hidden", "throttled", "quarantined"])
def test_unseen_mail_cannot_be_filed(
    api: ApiClient, identity: Identity, status: str
) -> None:
    unseen = received(identity, status=status)

    response = api.patch(f"{api.path}/{unseen.public_id}", {"labels_add": ["a"]})

    assert code_of(response) == "message_not_found"
    assert not Label.objects.exists()


def test_a_message_out_of_reach_is_answered_like_one_that_never_was(
    api: ApiClient, identity: Identity
) -> None:
    foreign = received(AddressFactory.create().identity)
    sibling = received(AddressFactory.create(identity__tenant=identity.tenant).identity)

    def answers(message_id: str) -> list[Any]:
        path = f"{api.path}/{message_id}"
        found = [
            api.get(path),
            api.get(f"{path}/raw"),
            api.get(f"{path}/attempts"),
            api.get(f"{path}/attempts?limit=x"),
            api.patch(path, {"labels_add": ["a"]}),
            api.patch(path, {"nonsense": 1}),
            api.post(f"{path}/resolve", {"outcome": "sent"}),
            api.post(f"{path}/resolve", {"nonsense": 1}),
        ]
        for answer in found:
            assert (answer.status_code, code_of(answer)) == (404, "message_not_found")
        return [
            answer.content.replace(answer["Request-Id"].encode(), b"")
            for answer in found
        ]

    never = answers(new_id("msg"))
    for message_id in (foreign.public_id, sibling.public_id, "x"):
        assert answers(message_id) == never
    assert len(set(never)) == 1
