"""The one transaction of a submit: its statements, its refusals, its collisions."""

from collections.abc import Iterator
from itertools import count
from typing import Any

import psycopg
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from core import objects, points
from core.database import execute
from core.errors import ObjectStoreAway
from mailboxes.models import Mailbox, Message, Tenant
from outbound import bell, ledger, send, sent_copy
from outbound.models import LedgerEntry
from quota.models import Allowance, Hold
from tests.support.api import ApiClient, booking, code_of
from tests.support.database import database_url
from tests.support.web import Sender

pytestmark = pytest.mark.django_db(transaction=True)

MOST_STATEMENTS, MOST_CONTROLS = 9, 3


@pytest.fixture
def api(sender: Sender, settings: Any) -> ApiClient:
    """A client in this process, limited by nothing."""
    settings.PM_RATE_PER_KEY = settings.PM_RATE_PER_TENANT = settings.PM_RATE_SENDS = 0
    return ApiClient(sender.secret, sender.identity.id)


@pytest.fixture
def put(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The object keys that were written."""
    written: list[str] = []
    original = objects.put

    def remember(key: str, body: bytes, *, metadata: dict[str, str]) -> None:
        written.append(key)
        original(key, body, metadata=metadata)

    monkeypatch.setattr(objects, "put", remember)
    return written


@pytest.fixture
def busy_mailbox(sender: Sender) -> Iterator[psycopg.Connection[Any]]:
    """A mailbox whose row is in the hands of somebody else."""
    with psycopg.connect(database_url()) as other:
        other.execute(
            "SELECT 1 FROM mailbox_state WHERE identity_id = %s FOR UPDATE",
            (sender.identity.id,),
        )
        yield other


def impatient() -> None:
    execute("SET LOCAL lock_timeout = '50ms'")


def nothing_is_left(put: list[str]) -> None:
    assert put
    assert not any(objects.exists(key) for key in put)
    assert not Message.objects.exists()
    assert not LedgerEntry.objects.exists()
    assert not Hold.objects.exists()
    assert Allowance.objects.get().held == 0


def test_an_accepted_send_takes_ten_statements_at_most(api: ApiClient) -> None:
    api.send(booking(), key="warm")

    with CaptureQueriesContext(connection) as seen:
        answer = api.send(booking(cc=["lee@example.org"], labels=["a"]), key="counted")

    assert answer.status_code == 202
    controls = ("BEGIN", "COMMIT", "SAVEPOINT", "RELEASE")
    asked = [q["sql"] for q in seen if not q["sql"].startswith(controls)]
    assert len(asked) <= MOST_STATEMENTS, asked
    assert len(seen) - len(asked) <= MOST_CONTROLS, [q["sql"] for q in seen]


def test_a_replay_takes_two_statements(api: ApiClient) -> None:
    api.send(booking())

    with CaptureQueriesContext(connection) as seen:
        api.send(booking())

    assert len(seen) == 2


def test_a_mailbox_that_stays_busy_is_a_503_and_nothing_is_left(
    api: ApiClient, busy_mailbox: Any, put: list[str]
) -> None:
    points.planted["submit.second_look"] = impatient

    answer = api.send(booking())

    assert (answer.status_code, code_of(answer)) == (503, "unavailable")
    nothing_is_left(put)


def test_a_mailbox_that_is_free_the_second_time_accepts(
    api: ApiClient,
    busy_mailbox: psycopg.Connection[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    points.planted["submit.second_look"] = impatient
    original = ledger.find_replay

    def released(slot: ledger.Slot) -> ledger.Accepted | None:
        busy_mailbox.rollback()
        return original(slot)

    monkeypatch.setattr(ledger, "find_replay", released)

    answer = api.send(booking())

    assert answer.status_code == 202
    assert Message.objects.count() == Hold.objects.count() == 1


@pytest.mark.parametrize("point", ["submit.copied", "submit.inserted"])
def test_a_bug_in_the_middle_leaves_nothing(
    sender: Sender, api: ApiClient, put: list[str], point: str
) -> None:
    def fail() -> None:
        raise LookupError(point)

    points.planted[point] = fail

    with pytest.raises(LookupError):
        api.send(booking())

    nothing_is_left(put)


def test_a_connection_killed_in_the_middle_is_a_503_and_a_retry_is_as_new(
    api: ApiClient, put: list[str]
) -> None:
    def kill() -> None:
        with psycopg.connect(database_url(), autocommit=True) as other:
            row = connection.connection.info.backend_pid
            other.execute("SELECT pg_terminate_backend(%s, 5000)", (row,))

    points.planted["submit.second_look"] = kill

    answer = api.send(booking())

    assert (answer.status_code, code_of(answer)) == (503, "unavailable")
    points.planted.clear()
    nothing_is_left(put)
    assert api.send(booking()).status_code == 202


def test_an_object_store_that_is_away_is_a_503(
    api: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object, **__: object) -> None:
        raise ObjectStoreAway("gone")

    monkeypatch.setattr(objects, "put", away)

    answer = api.send(booking())

    assert (answer.status_code, code_of(answer)) == (503, "unavailable")
    assert not Message.objects.exists()


def test_a_slow_object_store_is_given_up_between_two_files(
    api: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a store that takes four seconds for each object, and deletes none
    ticks = count(step=4)
    puts: list[str] = []
    deletes: list[str] = []

    def away(key: str) -> None:
        deletes.append(key)
        raise ObjectStoreAway("gone")

    monkeypatch.setattr(sent_copy, "elapsed_clock", lambda: float(next(ticks)))
    monkeypatch.setattr(objects, "put", lambda key, *_, **__: puts.append(key))
    monkeypatch.setattr(objects, "delete", away)
    file = {"filename": "a", "content_type": "a/b", "content_base64": "QQ=="}

    answer = api.send(booking(attachments=[file] * 32))

    assert (answer.status_code, code_of(answer)) == (503, "unavailable")
    assert (len(puts), len(deletes)) == (3, 1)
    assert not Message.objects.exists()


def test_past_thirty_seconds_a_submit_is_given_up_while_nothing_is_stored(
    api: ApiClient, monkeypatch: pytest.MonkeyPatch, put: list[str]
) -> None:
    monkeypatch.setattr(send, "DEADLINE_SECONDS", 0.0)

    answer = api.send(booking())

    assert (answer.status_code, code_of(answer)) == (504, "timeout")
    nothing_is_left(put)


def test_the_bell_rings_after_the_commit_and_for_new_sends_only(
    api: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    rings: list[int] = []
    monkeypatch.setattr(bell, "ring", lambda: rings.append(Message.objects.count()))

    api.send(booking())
    api.send(booking())

    assert rings == [1]


def test_a_suspension_between_look_and_lock_refuses_and_does_not_deadlock(
    api: ApiClient, put: list[str]
) -> None:
    def suspend() -> None:
        with psycopg.connect(database_url()) as other:
            other.execute("UPDATE tenants SET status = 'suspended'")

    points.planted["submit.second_look"] = suspend

    answer = api.send(booking())

    assert (answer.status_code, code_of(answer)) == (403, "tenant_suspended")
    assert Tenant.objects.get().status == "suspended"
    nothing_is_left(put)


def test_a_unique_violation_goes_back_to_the_savepoint_and_ends_in_a_503(
    api: ApiClient, sender: Sender, put: list[str]
) -> None:
    # Given a mailbox whose counter was set back, so that its next number is taken
    api.send(booking(), key="first")
    Message.objects.all().delete()
    LedgerEntry.objects.all().delete()
    Hold.objects.all().delete()
    Allowance.objects.update(held=0)
    Mailbox.objects.update(next_thread_seq=1)
    put.clear()

    answer = api.send(booking())

    assert (answer.status_code, code_of(answer)) == (503, "unavailable")
    assert answer.json()["error"]["details"] == {"reason": "mailbox_busy"}
    nothing_is_left(put)
