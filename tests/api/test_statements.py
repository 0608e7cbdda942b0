"""What an accepted send costs in statements, and that its context has a time-out."""

import time
from typing import Any

import psycopg
import pytest
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext

from domains.models import Domain
from mailboxes.models import Identity
from outbound import prepare, selectors, send
from tests.support.answering import named, received, with_file
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
