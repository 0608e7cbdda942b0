"""What a request costs in statements, and that the context of a send has a time-out."""

import time
import uuid
from typing import Any

import psycopg
import pytest
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext

from core.clock import database_now
from delivery.models import Attempt
from domains.models import Domain
from mailboxes.models import Identity, Label, Message, Thread
from outbound import prepare, selectors, send
from tests.factories import QueuedMessageFactory, ThreadFactory
from tests.support.answering import counted, named, received, with_file
from tests.support.api import ApiClient, booking, code_of

pytestmark = pytest.mark.django_db(transaction=True)


def statements(act: Any) -> list[str]:
    act("warm")
    with CaptureQueriesContext(connection) as captured:
        response = act("counted")
    assert response.status_code == 202, response.content
    found = [query["sql"] for query in captured.captured_queries]
    return [sql for sql in found if not sql.startswith(("BEGIN", "COMMIT"))]


@pytest.mark.parametrize("reply_token", ["none", "subaddress"])
def test_an_accepted_send_takes_ten_statements_at_most(
    api: ApiClient, reply_token: str
) -> None:
    Domain.objects.update(reply_token=reply_token)

    found = statements(lambda key: api.send(booking(), key=key))

    assert len(found) <= 10, "\n".join(found)


def test_a_reply_takes_two_more(api: ApiClient, identity: Identity) -> None:
    asked = {"warm": received(identity), "counted": received(identity)}

    def reply(key: str) -> Any:
        return api.answer("reply", asked[key].public_id, key=key)

    found = statements(reply)

    assert len(found) <= 12, "\n".join(found)


LISTS = {
    "threads": 3,
    "threads/{thread}": 7,
    "messages": 6,
    "messages/{message}/attempts": 4,
}
"""Statements of each list of a mailbox: however many rows it shows."""


def fill(identity: Identity, thread: Thread, mails: int) -> None:
    """Give the mailbox so many threads, the thread so many messages, and so on."""
    for _ in range(mails):
        sent: Message = QueuedMessageFactory.create(thread=thread)
        with_file(sent)
        for message in (sent, received(identity)):
            Label.objects.create(message=message, tenant=message.tenant, label="a")
            counted(message.thread)
        first = thread.messages.order_by("key")[0]
        Attempt.objects.create(
            message=first,
            tenant=thread.tenant,
            n=first.attempts.count() + 1,
            provider="smtp",
            claim_token=uuid.uuid4(),
            claimed_at=database_now(),
            phase="answered",
            from_address="",
        )


@pytest.mark.parametrize("route", LISTS)
def test_a_list_takes_the_same_few_statements_however_long(
    api: ApiClient, identity: Identity, route: str
) -> None:
    thread = ThreadFactory.create(identity=identity, seq=1000)
    counts, lengths = [], []
    for mails in (2, 12):
        fill(identity, thread, mails)
        first = thread.messages.order_by("key")[0]
        place = route.format(thread=thread.public_id, message=first.public_id)
        path = f"/v1/identities/{identity.id}/{place}?"
        path += "messages_limit=100" if route.endswith("{thread}") else "limit=100"
        api.get(path)  # warm: the key is marked as used once a minute
        with CaptureQueriesContext(connection) as captured:
            body = api.get(path).json()
        counts.append(len(captured.captured_queries))
        lengths.append(len(body.get("data") or body["messages"]))

    assert lengths[0] < lengths[1]
    statements = "\n".join(query["sql"][:200] for query in captured.captured_queries)
    assert counts == [LISTS[route]] * 2, statements


@pytest.mark.parametrize(
    "operation", ["send", "send with thread_id", "reply", "reply-all", "forward"]
)
def test_the_context_is_read_in_three_statements_at_most(
    api: ApiClient,
    identity: Identity,
    monkeypatch: pytest.MonkeyPatch,
    operation: str,
) -> None:
    # Given mail with all that an answer could have to read
    asked = received(identity, cc_addrs=named("lee@example.org", "kim@example.org"))
    received(identity, thread=asked.thread)
    with_file(asked)
    judged: list[int] = []
    plan_of = prepare.plan_of

    def verdict(*given: Any, **more: Any) -> Any:
        judged.append(len(connection.queries_log))
        return plan_of(*given, **more)

    monkeypatch.setattr(send, "plan_of", verdict)

    def act() -> Any:
        if operation.startswith("send"):
            into = {"thread_id": asked.thread.public_id} if " " in operation else {}
            return api.send(booking(**into))
        to = {"to": ["kim@example.org"]} if operation == "forward" else {}
        return api.answer(operation, asked.public_id, {"text": "Fine.", **to})

    # When it is asked for, then what stands between lock and verdict is counted
    with CaptureQueriesContext(connection):
        response = act()
        log = [query["sql"] for query in connection.queries_log]
    assert response.status_code == 202, response.content
    locked = next(n for n, sql in enumerate(log) if "pg_try_advisory_xact_lock" in sql)
    context = log[locked + 1 : judged[0]]
    assert 2 <= len(context) <= 3, "\n".join(context)
    assert len(judged) == 1


@pytest.mark.parametrize(
    ("module", "name"),
    [(selectors, "fetch_one"), (prepare, "filter_facts"), (prepare, "answered_facts")],
)
def test_a_context_that_cannot_be_read_is_a_503(
    api: ApiClient,
    identity: Identity,
    monkeypatch: pytest.MonkeyPatch,
    module: Any,
    name: str,
) -> None:
    asked = received(identity)

    def too_slow(*args: Any, **kwargs: Any) -> None:
        raise OperationalError("canceling statement due to statement timeout")

    monkeypatch.setattr(module, name, too_slow)
    response = api.answer("reply", asked.public_id)

    assert (response.status_code, code_of(response)) == (503, "unavailable")


@pytest.mark.parametrize("table", ["suppressions", "threads"])
def test_a_context_that_does_not_come_within_five_seconds_is_a_503(
    api: ApiClient, identity: Identity, table: str
) -> None:
    asked = received(identity)
    given = connection.get_connection_params()
    names = ("host", "port", "user", "password", "dbname")
    parameters = {name: given[name] for name in names if given.get(name)}

    with psycopg.connect(**parameters) as other:
        other.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
        started = time.monotonic()
        response = api.answer("reply", asked.public_id)
        took = time.monotonic() - started

    assert (response.status_code, code_of(response)) == (503, "unavailable")
    assert 4 < took < 9
    assert api.answer("reply", asked.public_id).json()["deduplicated"] is False
