"""Processes die and answers are lost around a submit (faults, rows 3, 4, 5, 27, 29)."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from core import objects, points
from core.canonical import key_hash
from core.fingerprint import fingerprint
from mailboxes.models import Message
from outbound.models import LedgerEntry
from quota.models import Allowance, Hold
from tests.support.api import ApiClient, booking
from tests.support.database import database_url
from tests.support.pg_proxy import Fault, PgProxy
from tests.support.processes import Processes, Running
from tests.support.web import Sender

pytestmark = pytest.mark.django_db(transaction=True)

LEDGER = "insert into idempotency"


@pytest.fixture(scope="module")
def group(
    django_db_setup: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Processes]:
    """Starts the web processes that nobody kills."""
    found = Processes(tmp_path_factory.mktemp("webs"))
    yield found
    found.end_all()


@pytest.fixture(scope="module")
def web(group: Processes) -> Running:
    """A web process for the retries."""
    return group.web()


@pytest.fixture(scope="module")
def cut_off(group: Processes) -> Iterator[tuple[PgProxy, Running]]:
    """A proxy to the database, and a web process of one thread behind it."""
    with PgProxy(database_url()) as proxy:
        running = group.web(threads=1, DATABASE_URL=proxy.url)
        yield proxy, running
        running.kill()


def stored(sender: Sender) -> list[Message]:
    return list(Message.objects.filter(identity=sender.identity))


def copies(settings: Any) -> set[str]:
    """Return the keys of all sent copies that the store holds."""
    root = Path(settings.PM_DATA_DIR) / "objects"
    return {str(path.relative_to(root)) for path in root.rglob("out/msg_*.eml")}


def test_a_web_process_killed_after_the_copy_leaves_no_row_and_a_retry_works(
    processes: Processes, web: Running, sender: Sender
) -> None:
    doomed = processes.web(planted="submit.copied=kill")
    with pytest.raises(ConnectionError):
        sender.post(doomed.url, "key", booking())

    assert stored(sender) == []
    assert not LedgerEntry.objects.exists()
    assert not Hold.objects.exists()
    answer = sender.post(web.url, "key", booking())
    assert (answer.status, answer.body["deduplicated"]) == (202, False)


def test_a_web_process_killed_before_its_commit_leaves_no_row(
    processes: Processes, web: Running, sender: Sender
) -> None:
    doomed = processes.web(planted="submit.inserted=kill")
    with pytest.raises(ConnectionError):
        sender.post(doomed.url, "key", booking())

    answer = sender.post(web.url, "key", booking())

    assert (answer.status, answer.body["deduplicated"]) == (202, False)
    assert len(stored(sender)) == 1
    assert Allowance.objects.get().held == 1


def test_a_web_process_killed_after_its_commit_has_accepted_and_a_retry_replays(
    processes: Processes, web: Running, sender: Sender
) -> None:
    doomed = processes.web(planted="submit.committed=kill")
    with pytest.raises(ConnectionError):
        sender.post(doomed.url, "key", booking())

    (message,) = stored(sender)
    assert message.status == "queued"
    assert message.raw_key is not None
    assert objects.exists(message.raw_key)
    answer = sender.post(web.url, "key", booking())
    assert (answer.status, answer.body["id"]) == (202, message.public_id)
    assert answer.body["deduplicated"] is True


def test_a_commit_whose_answer_is_lost_is_looked_up_and_answered(
    cut_off: tuple[PgProxy, Running], sender: Sender
) -> None:
    proxy, web = cut_off
    lost = proxy.at_commit(Fault.CUT_AFTER, marker=LEDGER)

    answer = sender.post(web.url, "key", booking())

    lost.wait()
    again = sender.post(web.url, "key", booking())
    assert (answer.status, answer.body["deduplicated"]) == (202, False)
    (message,) = stored(sender)
    assert message.public_id == answer.body["id"] == again.body["id"]
    assert message.raw_key is not None
    assert objects.exists(message.raw_key)
    assert again.body["deduplicated"] is True


def test_a_commit_that_never_arrived_is_a_503_and_a_retry_is_as_new(
    cut_off: tuple[PgProxy, Running], sender: Sender
) -> None:
    proxy, web = cut_off
    lost = proxy.at_commit(Fault.CUT_BEFORE, marker=LEDGER)

    answer = sender.post(web.url, "key", booking())

    lost.wait()
    assert (answer.status, answer.code) == (503, "unavailable")
    assert stored(sender) == []
    again = sender.post(web.url, "key", booking())
    assert (again.status, again.body["deduplicated"]) == (202, False)
    assert len(stored(sender)) == 1


def test_with_the_database_away_nobody_can_tell_and_a_retry_replays(
    cut_off: tuple[PgProxy, Running], sender: Sender
) -> None:
    # Given a process whose one thread has its connection, and no other is let in
    proxy, web = cut_off
    assert sender.get(web.url, "/v1/me").status == 200
    proxy.refuse()
    lost = proxy.at_commit(Fault.CUT_AFTER, marker=LEDGER)

    # When the answer to its COMMIT is lost
    answer = sender.post(web.url, "key", booking())

    # Then the row stands, with its copy, and a retry finds it
    lost.wait()
    assert (answer.status, answer.code) == (503, "unavailable")
    (message,) = stored(sender)
    assert message.raw_key is not None
    assert objects.exists(message.raw_key)
    proxy.admit()
    again = sender.post(web.url, "key", booking())
    assert (again.status, again.body["id"]) == (202, message.public_id)
    assert again.body["deduplicated"] is True


@pytest.fixture
def api(sender: Sender, settings: Any) -> ApiClient:
    """The same sender, in this process."""
    settings.PM_RATE_PER_KEY = settings.PM_RATE_PER_TENANT = settings.PM_RATE_SENDS = 0
    return ApiClient(sender.secret, sender.identity.id)


def intruder(sender: Sender, body: dict[str, Any], key: str = "key-1") -> Any:
    """Return what writes a live ledger row from a connection of its own."""

    def insert() -> None:
        digest = fingerprint("send", sender.identity.id, body)
        with psycopg.connect(database_url()) as direct:
            direct.execute(
                "INSERT INTO idempotency (identity_id, key_hash, tenant_id,"
                " fingerprint, operation, message_id, response, expires_at)"
                " VALUES (%s, %s, %s, %s, 'send', %s, %s, now() + interval '1 day')",
                (
                    sender.identity.id,
                    key_hash(key),
                    sender.identity.tenant_id,
                    digest,
                    "msg_" + "0" * 26,
                    Jsonb({"id": "msg_" + "0" * 26}),
                ),
            )

    return insert


def test_a_live_row_that_appears_after_the_second_look_is_replayed(
    api: ApiClient, sender: Sender, settings: Any
) -> None:
    before = copies(settings)
    points.planted["submit.second_look"] = intruder(sender, booking())

    answer = api.send(booking())

    assert answer.status_code == 202
    assert answer.json() == {"id": "msg_" + "0" * 26, "deduplicated": True}
    assert answer["Idempotent-Replayed"] == "true"
    assert stored(sender) == []
    assert not Hold.objects.exists()
    assert Allowance.objects.get().held == 0
    assert LedgerEntry.objects.count() == 1
    assert copies(settings) == before


def test_a_live_row_of_another_body_that_appears_is_a_conflict(
    api: ApiClient, sender: Sender, settings: Any
) -> None:
    before = copies(settings)
    points.planted["submit.second_look"] = intruder(sender, booking(subject="Other"))

    answer = api.send(booking())

    assert answer.status_code == 409
    assert re.search(rb"idempotency_conflict", answer.content)
    assert stored(sender) == []
    assert not Hold.objects.exists()
    assert copies(settings) == before
