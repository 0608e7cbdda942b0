"""The database proxy cuts exactly the COMMIT it was told to, and no other."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from tests.support.database import database_url
from tests.support.pg_proxy import Fault, PgProxy

pytestmark = pytest.mark.django_db

TABLE = "proxied"


@pytest.fixture
def table() -> Iterator[psycopg.Connection[Any]]:
    """A table, and a connection that does not go through the proxy."""
    with psycopg.connect(database_url(), autocommit=True) as direct:
        direct.execute(f"CREATE TABLE {TABLE} (what text)")
        try:
            yield direct
        finally:
            direct.execute(f"DROP TABLE {TABLE}")


@pytest.fixture
def proxy() -> Iterator[PgProxy]:
    """A proxy before the tests' own database."""
    with PgProxy(database_url()) as proxy:
        yield proxy
        proxy.forget_rules()


@contextmanager
def through(proxy: PgProxy, **options: Any) -> Iterator[psycopg.Connection[Any]]:
    connection = psycopg.connect(proxy.url, connect_timeout=5, **options)
    try:
        yield connection
    finally:
        connection.close()


def rows(direct: psycopg.Connection[Any]) -> list[str]:
    return [what for (what,) in direct.execute(f"SELECT what FROM {TABLE}")]  # noqa: S608


def insert(connection: psycopg.Connection[Any], what: str, **options: Any) -> None:
    connection.execute(f"INSERT INTO {TABLE} VALUES (%s)", [what], **options)  # noqa: S608


def test_statements_pass_untouched(
    proxy: PgProxy, table: psycopg.Connection[Any]
) -> None:
    with through(proxy) as connection:
        big = "x" * 300_000
        insert(connection, big)
        connection.commit()
        found = connection.execute(f"SELECT what FROM {TABLE}").fetchone()  # noqa: S608
        assert found == (big,)
    assert rows(table) == [big]


def test_a_commit_cut_after_is_carried_out_and_its_answer_lost(
    proxy: PgProxy, table: psycopg.Connection[Any]
) -> None:
    rule = proxy.at_commit(Fault.CUT_AFTER, marker=f"insert into {TABLE}")
    with through(proxy) as connection:
        insert(connection, "kept")
        with pytest.raises(psycopg.OperationalError):
            connection.commit()
    rule.wait()
    assert rows(table) == ["kept"]


def test_a_commit_cut_before_is_never_carried_out(
    proxy: PgProxy, table: psycopg.Connection[Any]
) -> None:
    rule = proxy.at_commit(Fault.CUT_BEFORE, marker=f"insert into {TABLE}")
    with through(proxy) as connection:
        insert(connection, "lost")
        with pytest.raises(psycopg.OperationalError):
            connection.commit()
    rule.wait()
    assert rows(table) == []


def test_only_a_transaction_with_the_marker_is_cut_and_only_so_often(
    proxy: PgProxy, table: psycopg.Connection[Any]
) -> None:
    rule = proxy.at_commit(Fault.CUT_AFTER, marker=f"update {TABLE}")
    with through(proxy) as connection:
        # Given transactions without the marker, the last of them rolled back
        insert(connection, "plain")
        connection.commit()
        connection.execute(f"UPDATE {TABLE} SET what = 'undone'")  # noqa: S608
        connection.rollback()
        insert(connection, "plain")
        connection.commit()
        assert rule.fired == 0

        # When one has it, then that one is cut
        connection.execute(f"UPDATE {TABLE} SET what = 'marked'")  # noqa: S608
        with pytest.raises(psycopg.OperationalError):
            connection.commit()

    # And the next is not: the rule was for one
    with through(proxy) as connection:
        connection.execute(f"UPDATE {TABLE} SET what = 'again'")  # noqa: S608
        connection.commit()
    assert rule.fired == 1
    assert rows(table) == ["again", "again"]


@pytest.mark.parametrize("fault", [Fault.CUT_AFTER, Fault.CUT_BEFORE])
def test_a_commit_of_the_extended_protocol_is_cut_too(
    proxy: PgProxy, table: psycopg.Connection[Any], fault: Fault
) -> None:
    # Given a statement that is prepared, and a COMMIT sent as Parse, Bind, Execute
    rule = proxy.at_commit(fault, marker=f"insert into {TABLE}")
    with through(proxy, autocommit=True) as connection:
        connection.execute("BEGIN", prepare=True)
        insert(connection, "extended", prepare=True)
        with pytest.raises(psycopg.OperationalError):
            connection.execute("COMMIT", prepare=True)
    rule.wait()
    expected = ["extended"] if fault is Fault.CUT_AFTER else []
    assert rows(table) == expected


def test_a_prepared_statement_run_again_is_still_recognised(
    proxy: PgProxy, table: psycopg.Connection[Any]
) -> None:
    with through(proxy) as connection:
        for _ in range(3):
            insert(connection, "prepared", prepare=True)
            connection.commit()
        rule = proxy.at_commit(Fault.CUT_BEFORE, marker=f"insert into {TABLE}")
        insert(connection, "prepared", prepare=True)
        with pytest.raises(psycopg.OperationalError):
            connection.commit()
    rule.wait()
    assert rows(table) == ["prepared"] * 3


def test_a_held_commit_goes_on_when_released(
    proxy: PgProxy, table: psycopg.Connection[Any]
) -> None:
    rule = proxy.at_commit(Fault.HOLD, marker=f"insert into {TABLE}")
    with through(proxy) as connection:
        insert(connection, "late")
        committing = threading.Thread(target=connection.commit)
        committing.start()
        rule.wait()
        assert rows(table) == []
        rule.release()
        committing.join(timeout=5)
        assert rows(table) == ["late"]


def test_a_restart_cuts_what_stands_refuses_for_a_while_and_serves_again(
    proxy: PgProxy, table: psycopg.Connection[Any]
) -> None:
    with through(proxy) as connection:
        insert(connection, "open")
        proxy.refuse()
        proxy.cut()
        with pytest.raises(psycopg.OperationalError):
            connection.commit()
        with pytest.raises(psycopg.OperationalError), through(proxy):
            pass
    proxy.admit()
    with through(proxy) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    assert rows(table) == []
