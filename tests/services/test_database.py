"""Hot statements notice a session that has died, and say so in a way that is caught."""

import time

import psycopg
import pytest
from django.core.management import call_command
from django.db import InternalError, close_old_connections, connection, transaction
from django.db.models.signals import pre_migrate

from core.database import AWAY, execute, fetch_one, sqlstate
from tests.support.database import database_url
from tests.support.waiting import until

pytestmark = pytest.mark.django_db(transaction=True)


def end_backend(pid: int) -> None:
    """Let the server end a session, and wait until it has."""
    with psycopg.connect(database_url(), autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s)", [pid])
        until(
            lambda: (
                other.execute(
                    "SELECT 1 FROM pg_stat_activity WHERE pid = %s", [pid]
                ).fetchone()
                is None
            )
        )


def test_a_backend_killed_between_two_requests_costs_no_request() -> None:
    for _ in range(3):
        close_old_connections()  # as at the start of a request or a task
        row = fetch_one("SELECT pg_backend_pid()")
        assert row is not None
        end_backend(row[0])
    close_old_connections()
    assert fetch_one("SELECT 1") == (1,)


def test_a_session_ended_for_standing_idle_in_a_transaction_counts_as_away() -> None:
    with pytest.raises(AWAY) as caught, transaction.atomic():  # noqa: PT012
        execute("SET LOCAL idle_in_transaction_session_timeout = 50")
        started = time.monotonic()
        until(lambda: time.monotonic() - started > 0.3)
        execute("SELECT 1")
    assert caught.type is InternalError
    assert sqlstate(caught.value) == "25P03"
    connection.close()
    assert fetch_one("SELECT 1") == (1,)


def test_a_migration_has_all_its_time_and_what_follows_has_not() -> None:
    seen = []

    def look(**_: object) -> None:
        seen.append(fetch_one("SHOW statement_timeout"))

    pre_migrate.connect(look)
    try:
        call_command("migrate", verbosity=0)
    finally:
        pre_migrate.disconnect(look)

    assert set(seen) == {("0",)}
    assert fetch_one("SHOW statement_timeout") == ("5s",)
