"""Fault 3: what a crash between copy and commit leaves is swept after 15 days."""

import os
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.core.files.storage import storages

from core import metrics, objects, points
from core.clock import database_now
from mailboxes.models import Attachment, Message
from outbound import orphans
from outbound.models import ObjectSweep
from pylota.celery import app
from tests.support.api import ApiClient, booking
from tests.support.crashes import Crash
from tests.support.restored import FILE

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_objects")]


@pytest.fixture
def left(api: ApiClient) -> set[str]:
    """The keys of a send whose process died between its copy and its commit."""
    # nothing is taken away by the dead
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("outbound.sent_copy.SentCopy.discard", lambda self: None)
        patched.setitem(points.planted, "submit.inserted", _die)
        with pytest.raises(Crash):
            api.send(booking(attachments=[FILE]), key="died")
    assert not Message.objects.exists()
    found = keys()
    assert len(found) == 2
    return found


def _die() -> None:
    raise Crash


def keys() -> set[str]:
    return {key for key, _ in objects.listing(limit=1000)}


def store(key: str, *, stored_at: datetime) -> str:
    """Put an object, and date it."""
    objects.put(key, b"x", metadata={})
    date(key, stored_at)
    return key


def date(key: str, stored_at: datetime) -> None:
    path: Any = storages["objects"].path(key)
    os.utime(path, (stored_at.timestamp(), stored_at.timestamp()))


def deleted() -> float:
    (family,) = metrics.OBJECTS_ORPHANED_DELETED.collect()
    return next(s.value for s in family.samples if s.name.endswith("_total"))


def test_what_a_crash_leaves_is_swept_after_fifteen_days_and_not_before(
    left: set[str], api: ApiClient, django_capture_on_commit_callbacks: Any
) -> None:
    # Given a send that works beside it
    api.send(booking(attachments=[FILE]), key="died")
    kept = keys() - left
    assert len(kept) == 2
    now, before = database_now(), deleted()

    # When the sweep comes a day early, and then in time
    assert orphans.sweep_objects(now=now + timedelta(days=14)) == 0
    assert keys() == left | kept
    with django_capture_on_commit_callbacks(execute=True):
        assert orphans.sweep_objects(now=now + timedelta(days=15, minutes=1)) == 2

    # Then what no row names is gone, and counted
    assert keys() == kept
    assert deleted() - before == 2
    (file,) = Attachment.objects.all()
    assert objects.get(file.object_key) == b"first floor"


def test_a_submit_that_still_runs_keeps_its_copy(
    api: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a sweep while a submit stands between its copy and its rows
    swept: list[int] = []
    sweep = orphans.sweep_objects
    action = lambda: swept.append(sweep(now=database_now()))  # noqa: E731
    monkeypatch.setitem(points.planted, "submit.copied", action)

    # When the send is accepted
    answer = api.send(booking())

    # Then its copy is there
    assert (answer.status_code, swept) == (202, [0])
    message = Message.objects.get(public_id=answer.json()["id"])
    assert message.raw_key is not None
    assert objects.exists(message.raw_key)


def test_mail_that_came_in_and_what_is_not_known_stays() -> None:
    # Given old objects that no row names
    now = database_now()
    old = now - timedelta(days=40)
    box = f"t/ten_{'0' * 26}/i/idn_{'0' * 26}"
    message = f"msg_{'0' * 26}"
    others = {
        store(f"{box}/in/{message}/raw.eml", stored_at=old),
        store(f"{box}/in/{message}/a/att_{'0' * 26}", stored_at=old),
        store(f"{box}/out/notes.eml", stored_at=old),
        store("exports/all.zip", stored_at=old),
    }
    orphan = store(f"{box}/out/{message}.eml", stored_at=old)

    # When they are swept, then only the sent copy goes
    assert orphans.sweep_objects(now=now) == 1
    assert keys() == others
    assert not objects.exists(orphan)


def test_a_run_is_bounded_and_the_next_goes_on_where_it_stopped() -> None:
    # Given five orphans
    now = database_now()
    box = f"t/ten_{'0' * 26}/i/idn_{'0' * 26}/out"
    for n in range(5):
        store(f"{box}/msg_{n:026}.eml", stored_at=now - timedelta(days=16))

    # When runs may list two keys, then each takes the next two
    assert orphans.sweep_objects(now=now, limit=2) == 2
    assert ObjectSweep.objects.get().cursor == f"{box}/msg_{1:026}.eml"
    store(f"{box}/msg_{0:026}.eml", stored_at=now - timedelta(days=16))
    assert orphans.sweep_objects(now=now, limit=2) == 2
    assert keys() == {f"{box}/msg_{n:026}.eml" for n in (0, 4)}
    assert orphans.sweep_objects(now=now, limit=2) == 1

    # And past the end they begin anew
    assert ObjectSweep.objects.get().cursor == ""
    assert orphans.sweep_objects(now=now, limit=2) == 1
    assert keys() == set()


def test_a_store_that_is_away_leaves_the_cursor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given a store that cannot delete
    now = database_now()
    box = f"t/ten_{'0' * 26}/i/idn_{'0' * 26}/out"
    key = store(f"{box}/msg_{'0' * 26}.eml", stored_at=now - timedelta(days=16))

    def away(_: str) -> None:
        raise objects.ObjectStoreAway("the object store does not answer")

    # When a run fails
    with monkeypatch.context() as patched:
        patched.setattr(objects, "delete", away)
        with pytest.raises(objects.ObjectStoreAway):
            orphans.sweep_objects(now=now, limit=1)

    # Then the next one finds the same
    assert ObjectSweep.objects.get().cursor == ""
    assert orphans.sweep_objects(now=now, limit=1) == 1
    assert not objects.exists(key)


def test_beat_rings_for_it() -> None:
    scheduled = {entry["task"] for entry in app.conf["beat_schedule"].values()}
    assert "outbound.sweep_objects" in scheduled
