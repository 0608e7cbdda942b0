"""Fault 48: the database goes back to T, and the sent copies give the ledger back."""

import pytest
from django.db import connection, transaction

from core import objects, points
from core.clock import database_now
from delivery import inbox
from delivery.events import DeliveryEvent
from delivery.models import Delivery, OutboundState, ProviderEvent
from delivery.services import apply_event
from delivery.statuses import DeliveryKind, EventSource
from domains.models import Domain
from mailboxes.models import Identity, Mailbox, Message, Thread
from outbound.models import LedgerEntry
from tests.factories import ThreadFactory
from tests.services.conftest import statuses
from tests.support.api import ApiClient, booking, code_of
from tests.support.crashes import Crash
from tests.support.restored import (
    assert_books_agree,
    rebuild,
    restored,
)
from tests.support.scripted import ScriptedTransport, work

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_objects")]


def rows() -> tuple[int, int, int, int]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM events")
        (events,) = cursor.fetchone()
    counted = (Message.objects.count(), LedgerEntry.objects.count())
    return (*counted, Delivery.objects.count(), events)


def test_every_key_accepted_since_answers_again_and_nothing_is_sent(
    api: ApiClient, scripted: ScriptedTransport
) -> None:
    # Given a restore to before three sends
    scene = restored(api)

    # When the ledger is rebuilt
    said = scene.rebuild()

    # Then each key replays its message, another body conflicts, and nobody is called
    assert "3 rebuilt" in said
    assert "1 queued made uncertain" in said
    for key, request in scene.requests.items():
        again = request()
        assert (again.status_code, again["Idempotent-Replayed"]) == (202, "true")
        assert again.json()["id"] == scene.answers[key]["id"]
        assert again.json()["status"] == "uncertain"
        assert "reprocessed" in again.json()["flags"]
        assert work(again.json()["id"], scripted) is None
    other = api.send(booking(subject="Another"), key="plain")
    assert (other.status_code, code_of(other)) == (409, "idempotency_conflict")
    assert scripted.calls == []
    assert set(Delivery.objects.values_list("status", flat=True)) == {"uncertain"}
    assert not OutboundState.objects.exists()
    assert_books_agree()


def test_a_rebuilt_message_is_what_was_accepted(api: ApiClient) -> None:
    # Given a restore
    scene = restored(api)
    scene.rebuild()

    # When the messages are read
    for key, first in scene.answers.items():
        shown = api.get(f"{api.path}/{first['id']}").json()

        # Then they say what they said, but for their doubt
        same = ("from", "to", "cc", "bcc", "reply_to", "subject", "extracted_text")
        ids = ("thread_id", "rfc_message_id", "in_reply_to", "kind", "attachments")
        for name in (*same, *ids):
            assert shown[name] == first[name], (key, name)
    full = Message.objects.get(public_id=scene.answers["full"]["id"])
    assert set(statuses(full)) == {
        "jo@example.net",
        "al@example.net",
        "boss@example.org",
    }
    (kept,) = full.attachments.all()
    assert objects.get(kept.object_key) == b"first floor"
    reply = Message.objects.get(public_id=scene.answers["reply"]["id"])
    assert reply.thread.messages.count() == reply.thread.message_count == 2
    assert Thread.objects.count() == 3


def test_a_rebuilt_send_is_settled_by_a_person(api: ApiClient) -> None:
    # Given a rebuilt send
    scene = restored(api)
    scene.rebuild()
    message_id = scene.answers["full"]["id"]

    # When a person says that it was sent
    path = f"{api.path}/{message_id}/resolve"
    answer = api.post(path, {"outcome": "sent"}, key="settle")

    # Then it is, each recipient charged once, without a hold
    assert answer.status_code == 200, answer.content
    message = Message.objects.get(public_id=message_id)
    assert set(statuses(message).values()) == {"submitted"}
    assert_books_agree()


def test_a_rebuilt_send_is_settled_by_a_provider_event_that_names_it(
    api: ApiClient,
) -> None:
    # Given a rebuilt send, and what its provider says of it
    scene = restored(api)
    scene.rebuild()
    first = scene.answers["plain"]
    said = DeliveryEvent(
        source=EventSource.SES,
        event_id="ses-1",
        provider_message_id="ses-mail-1",
        tag=first["id"],
        sender=first["from"]["address"],
        recipient="jo@example.net",
        kind=DeliveryKind.DELIVERED,
        occurred_at=database_now(),
        subject=first["subject"],
    )

    # When it is applied, as often as it comes
    inbox.store([said], due_at=[database_now()])
    (row,) = ProviderEvent.objects.all()
    assert apply_event(row.id) == "applied"
    assert inbox.store([said], due_at=[database_now()]) == 0

    # Then the send is settled, and its key still replays
    message = Message.objects.get(public_id=first["id"])
    assert (message.status, message.evidence) == ("delivered", "tag")
    assert scene.requests["plain"]()["Idempotent-Replayed"] == "true"
    assert_books_agree()


def test_a_thread_keeps_the_number_that_its_reply_to_names(api: ApiClient) -> None:
    # Given two sends after T whose Reply-To names their threads' numbers
    Domain.objects.update(reply_token="subaddress")
    since = database_now()
    at_t = transaction.savepoint()
    first = [api.send(booking(), key=f"k{n}").json() for n in range(2)]
    numbers = {
        answer["id"]: Thread.objects.get(public_id=answer["thread_id"]).seq
        for answer in first
    }
    transaction.savepoint_rollback(at_t)

    # And one of the numbers went to another thread since
    taken = numbers[first[0]["id"]]
    ThreadFactory.create(identity=Identity.objects.get(id=api.identity_id), seq=taken)
    Mailbox.objects.update(next_thread_seq=max(numbers.values()) + 10)

    # When the ledger is rebuilt
    assert "2 rebuilt" in rebuild(since)

    # Then the free number is kept, the other is given anew, and none twice
    found = {
        message.public_id: message.thread.seq
        for message in Message.objects.select_related("thread")
    }
    assert found[first[1]["id"]] == numbers[first[1]["id"]]
    assert found[first[0]["id"]] not in numbers.values()
    assert {answer["thread_id"] for answer in first} <= set(
        Thread.objects.values_list("public_id", flat=True)
    )
    assert_books_agree()


def test_a_second_run_does_nothing(api: ApiClient) -> None:
    # Given a ledger that has been rebuilt
    scene = restored(api)
    scene.rebuild()
    before = rows()

    # When the command runs again
    said = scene.rebuild()

    # Then no row has changed in number
    assert "0 sent copies have no message" in said
    assert "0 rebuilt" in said
    assert "0 queued made uncertain" in said
    assert rows() == before


def test_a_run_killed_between_two_messages_is_finished_by_the_next(
    api: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a run that dies after its first message
    scene = restored(api)

    def die() -> None:
        raise Crash

    monkeypatch.setitem(points.planted, "restore.message_done", die)
    with pytest.raises(Crash):
        scene.rebuild()
    assert Message.objects.filter(flags__contains=["reprocessed"]).count() == 1
    monkeypatch.delitem(points.planted, "restore.message_done")

    # When it runs again
    said = scene.rebuild()

    # Then the rest is there, once
    assert "2 rebuilt" in said
    assert Message.objects.filter(flags__contains=["reprocessed"]).count() == 3
    assert {r().json()["id"] for r in scene.requests.values()} == {
        answer["id"] for answer in scene.answers.values()
    }
    assert_books_agree()
