"""What an accepted send costs in statements, and that its context has a time-out."""

import time
from typing import Any

import psycopg
import pytest
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext

from domains.models import Domain
from mailboxes.models import Identity
from outbound import prepare, selectors
from tests.support.answering import received
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
