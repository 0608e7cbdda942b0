"""What a request costs in statements, and that the context of a send has a time-out."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from django.db import OperationalError, connection, transaction
from django.test.utils import CaptureQueriesContext

from domains.models import Domain
from domains.services import ensure_platform_domain
from mailboxes.keyring_services import current_key, forget_keys
from mailboxes.models import Identity
from mailboxes.statuses import KeyPurpose
from outbound import prepare, selectors, send
from tests.support.answering import named, received, with_file
from tests.support.api import ApiClient, booking, code_of
from tests.support.calls import SENDING, Call, body_of, calls, filled
from tests.support.lists import GROW, limit_of, path_of, shown
from tests.support.lived_in import lived_in

pytestmark = pytest.mark.django_db(transaction=True)

TRANSACTION = ("BEGIN", "COMMIT", "SAVEPOINT", "RELEASE")


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


STATEMENTS: dict[Call, int] = {
    ("address", "DELETE"): 11,
    ("address-promote", "POST"): 15,
    ("address-retire", "POST"): 10,
    ("addresses", "GET"): 3,
    ("addresses", "POST"): 14,
    ("audit-events", "GET"): 2,
    ("events", "GET"): 2,
    ("identities", "GET"): 3,
    ("identity", "DELETE"): 20,
    ("identity", "GET"): 3,
    ("identity", "PATCH"): 15,
    ("identity-lookup", "GET"): 3,
    ("key", "DELETE"): 6,
    ("key", "GET"): 2,
    ("key-rotate", "POST"): 5,
    ("keys", "GET"): 2,
    ("keys", "POST"): 3,
    ("list", "GET"): 3,
    ("list-entry", "DELETE"): 4,
    ("list-entry", "GET"): 3,
    ("list-entry", "PUT"): 5,
    ("me", "GET"): 2,
    ("message", "GET"): 6,
    ("message", "PATCH"): 13,
    ("message-attachment", "GET"): 3,
    ("message-attempts", "GET"): 4,
    ("message-cancel", "POST"): 26,
    ("message-forward", "POST"): 12,
    ("message-raw", "GET"): 3,
    ("message-reply", "POST"): 11,
    ("message-reply-all", "POST"): 11,
    ("message-resolve", "POST"): 23,
    ("messages", "GET"): 6,
    ("messages", "POST"): 9,
    ("messages-resolve", "POST"): 19,
    ("signing-key-rotate", "POST"): 8,
    ("suppression", "DELETE"): 5,
    ("suppressions", "GET"): 3,
    ("suppressions", "POST"): 9,
    ("tenant", "GET"): 3,
    ("tenant", "PATCH"): 7,
    ("tenant-billing", "GET"): 4,
    ("tenant-billing", "PATCH"): 8,
    ("tenant-identities", "GET"): 4,
    ("tenant-identities", "POST"): 22,
    ("tenant-policy", "GET"): 2,
    ("tenant-policy", "PATCH"): 10,
    ("tenant-webhooks", "GET"): 3,
    ("tenant-webhooks", "POST"): 8,
    ("tenants", "GET"): 3,
    ("tenants", "POST"): 6,
    ("thread", "GET"): 7,
    ("thread", "PATCH"): 11,
    ("threads", "GET"): 3,
    ("usage", "GET"): 5,
    ("usage-daily", "GET"): 4,
    ("webhook", "DELETE"): 16,
    ("webhook", "GET"): 2,
    ("webhook", "PATCH"): 6,
    ("webhook-deliveries", "GET"): 3,
    ("webhook-replay", "POST"): 6,
    ("webhook-rotate-secret", "POST"): 6,
    ("webhook-test", "POST"): 4,
    ("webhooks", "GET"): 2,
    ("webhooks", "POST"): 6,
}
"""Statements of each call that succeeds, on a mailbox with one row of every kind.

Those that begin and end transactions are not counted; the key's own is.
"""


def counted_calls(client: ApiClient, call: Call, path: str, body: Any) -> list[str]:
    headers = {"Idempotency-Key": "key-1"} if call[0] in SENDING else {}
    client.get("/v1/me")  # warm: a key is marked as used once a minute
    with CaptureQueriesContext(connection) as captured:
        answer = client._with_body(call[1], path, body, headers)
    assert 200 <= answer.status_code < 300, answer.content
    found = [query["sql"] for query in captured.captured_queries]
    return [sql for sql in found if not sql.startswith(TRANSACTION)]


def test_every_call_has_its_number_of_statements() -> None:
    assert sorted(STATEMENTS) == calls()


@contextmanager
def undone() -> Iterator[None]:
    """Take back all that the block wrote: the next one finds the rows as they were."""
    start = transaction.savepoint()
    yield
    transaction.savepoint_rollback(start)


@pytest.mark.django_db
def test_each_call_takes_as_many_statements_as_the_table_says(
    platform_api: ApiClient, identity: Identity
) -> None:
    ensure_platform_domain()
    rows = lived_in(identity)
    forget_keys()
    current_key(KeyPurpose.LINK)  # a rotation has one to end, as it has but once
    counts, listed = {}, []
    for call in calls():
        with undone():
            path, body = filled(call, rows), body_of(call, rows)
            found = counted_calls(platform_api, call, path, body)
        counts[call] = len(found)
        if len(found) != STATEMENTS.get(call):
            listed += [f"{call}: {len(found)}", *(sql[:160] for sql in found)]

    assert counts == STATEMENTS, "\n".join(listed)


@pytest.mark.django_db
def test_a_list_takes_the_same_few_statements_however_long(
    platform_api: ApiClient, identity: Identity
) -> None:
    rows = lived_in(identity)
    for name in sorted(GROW):
        path = f"{path_of(name, rows)}?{limit_of(name)}=100"
        counts, lengths = [], []
        with undone():
            for more in (range(2), range(2, 14)):
                for n in more:
                    GROW[name](identity, rows, n)
                found = counted_calls(platform_api, (name, "GET"), path, None)
                counts.append(len(found))
                lengths.append(len(shown(platform_api.get(path).json())))

        assert lengths[1] >= lengths[0] + 12, name
        assert counts[0] == counts[1], (name, [sql[:160] for sql in found])


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
