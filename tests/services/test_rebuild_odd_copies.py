"""Sent copies that are no plain send: two of a key, unreadable, of nobody, in S3."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import transaction
from pytest_django import Settings

from core import objects
from core.clock import database_now
from core.sealing import Place, sealer
from mailboxes.models import Identity, Message
from outbound import restoring
from tests.factories import QueuedMessageFactory
from tests.support.api import ApiClient, booking
from tests.support.restored import (
    assert_books_agree,
    rebuild,
    restored,
)
from tests.support.s3_server import s3_server

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_objects")]


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
