"""Fixtures of the tests that run real processes.

They share one web process, idle between the tests; workers belong to one test and are
gone before its rows are.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.test import TransactionTestCase
from pytest_django import DjangoDbBlocker

from tests.support.emptying import empty_tables
from tests.support.processes import Processes, Running, processes
from tests.support.sending import Client, open_account
from tests.support.smtp_server import SmtpServer

__all__ = ["processes"]


@pytest.fixture(scope="session")
def web(
    django_db_setup: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    """The web process of all tests that need no other."""
    group = Processes(tmp_path_factory.mktemp("web"))
    yield group.web()
    group.end_all()


@pytest.fixture(scope="module")
def company(
    django_db_setup: None,
    django_db_blocker: DjangoDbBlocker,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Processes]:
    """Starts processes for a whole module; no row of theirs is left either."""
    group = Processes(tmp_path_factory.mktemp("company"))
    yield group
    group.end_all()
    with django_db_blocker.unblock():
        empty_tables(TransactionTestCase())


@pytest.fixture
def crew(transactional_db: None, tmp_path: Path) -> Iterator[Processes]:
    """Starts the test's own processes, and ends them all."""
    group = Processes(tmp_path)
    yield group
    group.end_all()


@pytest.fixture
def relay() -> Iterator[SmtpServer]:
    """A relay over TLS that fails as it is told, and counts copies."""
    with SmtpServer() as relay:
        yield relay


@pytest.fixture
def account(transactional_db: None, web: Running) -> Callable[[SmtpServer], Client]:
    """Make a tenant whose one identity sends through the given relay."""
    return lambda relay: open_account(relay, base_url=web.url)


@pytest.fixture
def sender(account: Callable[[SmtpServer], Client], relay: SmtpServer) -> Client:
    """A client of the web, whose mail goes to ``relay``."""
    return account(relay)
