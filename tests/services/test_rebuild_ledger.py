"""Fault 48: the database goes back to T, and the sent copies give the ledger back."""

import base64
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from pytest_django import Settings

from core import objects, points
from core.clock import database_now
from core.sealing import Place, sealer
from delivery import inbox
from delivery.events import DeliveryEvent
from delivery.models import Delivery, OutboundState, ProviderEvent
from delivery.services import apply_event
from delivery.statuses import DeliveryKind, EventSource
from domains.models import Domain
from mailboxes.models import Identity, Mailbox, Message, Thread
from outbound import restoring
from outbound.models import LedgerEntry
from tests.api.conftest import client_of
from tests.factories import QueuedMessageFactory, ThreadFactory
from tests.services.conftest import statuses
from tests.support.api import ApiClient, booking, code_of
from tests.support.crashes import Crash
from tests.support.invariants import NO_SUCH_ROWS
from tests.support.s3_server import s3_server
from tests.support.scripted import ScriptedTransport, work

pytestmark = pytest.mark.django_db
FILE = {
    "filename": "plan.txt",
    "content_type": "text/plain",
    "content_base64": base64.b64encode(b"first floor").decode(),
}


@pytest.fixture(autouse=True)
def _own_objects(settings: Settings, tmp_path: Any) -> None:
    settings.PM_RATE_PER_KEY = settings.PM_RATE_PER_TENANT = settings.PM_RATE_SENDS = 0
    store = settings.STORAGES["objects"]
    settings.STORAGES = {
        **settings.STORAGES,
        "objects": {**store, "OPTIONS": {"location": str(tmp_path / "objects")}},
    }


@pytest.fixture
def api(identity: Identity) -> ApiClient:
    """A client of a live tenant whose identity may send."""
    return client_of(identity)


@dataclass
class Restore:
    """What was accepted after T, which the database has then forgotten."""

    api: ApiClient
    since: datetime
    requests: dict[str, Callable[[], Any]] = field(default_factory=dict)
    answers: dict[str, dict[str, Any]] = field(default_factory=dict)

    def accept(self, key: str, request: Callable[[], Any]) -> str:
        answer = request()
        assert answer.status_code == 202, answer.content
        self.requests[key], self.answers[key] = request, answer.json()
        return str(answer.json()["id"])

    def rebuild(self) -> str:
        return rebuild(self.since)


def rebuild(since: datetime) -> str:
    """Run the command, and return what it says."""
    said = StringIO()
    call_command("rebuild_ledger", since=since.isoformat(), stdout=said)
    return said.getvalue()


def restored(api: ApiClient) -> Restore:
    """Accept a send, one with BCC and a file, and a reply; then go back to before.

    The rollback to a savepoint leaves every table as it was at T; objects stay.
    """
    known = api.send(booking(subject="Known"), key="before").json()["id"]
    scene = Restore(api, database_now())
    at_t = transaction.savepoint()
    scene.accept("plain", lambda: api.send(booking(), key="plain"))
    full = booking(cc=["al@example.net"], bcc=["boss@example.org"], attachments=[FILE])
    scene.accept("full", lambda: api.send(full, key="full"))
    scene.accept("reply", lambda: api.answer("reply", known, key="reply"))
    transaction.savepoint_rollback(at_t)
    assert Message.objects.count() == LedgerEntry.objects.count() == 1
    return scene


def assert_books_agree() -> None:
    with connection.cursor() as cursor:
        for what, statement in NO_SUCH_ROWS.items():
            cursor.execute(statement)
            assert cursor.fetchall() == [], what


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


def test_a_copy_that_cannot_be_inserted_does_not_keep_the_others(
    api: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given one copy that fails, and one whose metadata are no use
    scene = restored(api)
    bad, worse = (scene.answers[key]["id"] for key in ("plain", "full"))
    plain = restoring._insert

    def insert(plan: Any, *args: Any, **options: Any) -> None:
        if plan.message_id == bad:
            raise RuntimeError("no place for it")
        plain(plan, *args, **options)

    monkeypatch.setattr(restoring, "_insert", insert)
    key = next(k for k, _ in objects.listing(limit=99) if k.endswith(f"{worse}.eml"))
    objects.put(key, objects.get(key), metadata={"operation": "send"})

    # When the command runs, then it ends as a failure that says so
    with pytest.raises(CommandError, match="1 could not be rebuilt and 0 stand"):
        scene.rebuild()

    # And the third is there
    again = scene.requests["reply"]()
    assert again["Idempotent-Replayed"] == "true"
    assert not Message.objects.filter(public_id__in=[bad, worse]).exists()


def test_the_later_of_two_copies_under_one_key_was_accepted(api: ApiClient) -> None:
    # Given what a refused request left under a key, stored before the accepted one
    since = database_now()
    at_t = transaction.savepoint()
    left = api.send(booking(), key="k").json()["id"]
    transaction.savepoint_rollback(at_t)
    at_t = transaction.savepoint()
    accepted = api.send(booking(), key="k").json()["id"]
    transaction.savepoint_rollback(at_t)

    # When the ledger is rebuilt, and once more
    assert "1 rebuilt" in (said := rebuild(since))
    assert "1 superseded" in said
    assert "0 rebuilt" in rebuild(since)

    # Then the key stands for the accepted one alone
    assert api.send(booking(), key="k").json()["id"] == accepted != left
    assert not Message.objects.filter(public_id=left).exists()


def test_a_paused_sender_is_rebuilt_and_one_that_is_gone_is_told_of(
    api: ApiClient, identity: Identity
) -> None:
    # Given two senders after T, of whom one is not in the database any more
    since = database_now()
    at_t = transaction.savepoint()
    accepted = api.send(booking(), key="k").json()["id"]
    key = next(k for k, _ in objects.listing(limit=9) if k.endswith(".eml"))
    transaction.savepoint_rollback(at_t)
    Identity.objects.filter(pk=identity.pk).update(
        status="paused", pause_reason="manual"
    )
    gone = key.replace(identity.id, "idn_" + "0" * 26)
    gone = gone.replace(accepted, "msg_" + "0" * 26)
    stored = objects.metadata(key)
    del stored["bcc"]
    objects.put(
        gone,
        objects.get(key),
        metadata={**stored, "bcc": _nobody(gone)},
    )

    # When the ledger is rebuilt
    said = rebuild(since)

    # Then one is there and the other is named
    assert "1 rebuilt" in said
    assert "1 owner gone" in said
    assert f"owner gone: {gone}" in said
    assert Message.objects.get().public_id == accepted
    assert api.send(booking(), key="k").json()["id"] == accepted


def _nobody(key: str) -> str:
    return sealer().seal(b"[]", place=Place("objects", "bcc", key))


def test_it_reads_copies_from_s3_as_well(api: ApiClient, settings: Settings) -> None:
    # Given objects in a bucket, in pages of two
    with s3_server() as server:
        server.page = 2
        options = {
            "bucket_name": "mail",
            "endpoint_url": server.url,
            "access_key": "test",
            "secret_key": "test",
            "region_name": "eu-central-1",
            "addressing_style": "path",
        }
        bucket = {"BACKEND": "core.s3.MetadataS3Storage", "OPTIONS": options}
        settings.STORAGES = {**settings.STORAGES, "objects": bucket}
        scene = restored(api)

        # When the ledger is rebuilt
        said = rebuild(datetime(2020, 1, 1, tzinfo=UTC))

        # Then every key answers, and the file is found
        assert "3 rebuilt" in said
        for key, request in scene.requests.items():
            assert request().json()["id"] == scene.answers[key]["id"]
        (kept,) = Message.objects.get(
            public_id=scene.answers["full"]["id"]
        ).attachments.all()
        assert objects.get(kept.object_key) == b"first floor"
        assert_books_agree()


def test_copies_before_the_moment_are_left_alone(api: ApiClient) -> None:
    # Given a copy without a row that is older than T
    at_t = transaction.savepoint()
    api.send(booking(), key="k")
    transaction.savepoint_rollback(at_t)

    # When it is looked for from later on
    found = restoring.lost_copies(since=database_now() + timedelta(minutes=5))

    # Then it is not found, and from before it is
    assert found == []
    assert len(restoring.lost_copies(since=database_now())) == 1


@pytest.mark.parametrize(
    ("since", "what"),
    [
        ("yesterday", "not an instant"),
        ("2026-11-30T06:00:00", "say the offset"),
        ("2999-01-01T00:00:00Z", "still to come"),
    ],
)
def test_a_bad_moment_is_one_clear_error(since: str, what: str) -> None:
    message = QueuedMessageFactory.create(recipients=("jo@example.net",))

    with pytest.raises(CommandError, match=what):
        call_command("rebuild_ledger", since=since)

    message.refresh_from_db()
    assert message.status == "queued"
