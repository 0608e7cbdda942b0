"""The few fixtures that every kind of test may use."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.backends.postgresql.base import DatabaseWrapper
from django.test import TransactionTestCase
from hypothesis import HealthCheck, settings
from pytest_django import DjangoDbBlocker

from core import clock, points
from mailboxes import services
from mailboxes.models import Address, Identity
from outbound import bell
from tests.factories import AddressFactory
from tests.support.emptying import empty_tables
from tests.support.published import checked
from tests.support.template import migrated_template

# Examples are not timed: a loaded machine is no fault. CI runs the same ones each time.
settings.register_profile(
    "pylota",
    deadline=None,
    derandomize="CI" in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
)
# For a release, with --hypothesis-profile=release: histories without number.
settings.register_profile(
    "release",
    settings.get_profile("pylota"),
    derandomize=False,
    max_examples=2000,
    stateful_step_count=60,
)
settings.load_profile("pylota")


ORDER = ("e2e", "concurrency", "brokers", "embedded", "api", "services", "unit")
"""The folders of tests, those first that wait most: the end is left to the quick."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the slow folders begin, so that no process waits long for another's end."""
    items.sort(key=_rank)


def _rank(item: pytest.Item) -> int:
    folder = item.path.parent.name
    return ORDER.index(folder) if folder in ORDER else len(ORDER)


@pytest.fixture(scope="session", autouse=True)
def _patience_with_databases() -> Iterator[None]:
    """Let a test database take its time to be made and dropped: that is not ours."""
    plain = DatabaseWrapper._nodb_cursor

    @contextmanager
    def patient(self: DatabaseWrapper) -> Iterator[Any]:
        with plain(self) as cursor:
            cursor.execute("SET statement_timeout = 0")
            yield cursor

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(DatabaseWrapper, "_nodb_cursor", patient)
        yield


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    django_db_modify_db_settings_parallel_suffix: None,
    django_db_blocker: DjangoDbBlocker,
    django_db_keepdb: bool,
) -> None:
    """Copy the test database from a migrated one; a kept one (--reuse-db) migrates."""
    with django_db_blocker.unblock():
        copied = {"TEMPLATE": migrated_template(), "MIGRATE": django_db_keepdb}
    connection.settings_dict["TEST"].update(copied)


@pytest.fixture(scope="session", autouse=True)
def _quick_to_empty() -> Iterator[None]:
    """Let a test that commits leave an empty database without rebuilding it."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(TransactionTestCase, "_fixture_teardown", empty_tables)
        yield


@pytest.fixture(scope="session", autouse=True)
def _events_as_published() -> Iterator[None]:
    """Let no test store an event that is not what its type's schema says."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(services, "_store", checked(services._store))
        yield


@pytest.fixture(autouse=True)
def _clean_process_state() -> Iterator[None]:
    """Leave no planted point and no moved clock behind."""
    yield
    bell.stop()  # its connection would keep the test database from being dropped
    points.planted.clear()
    clock.offset = timedelta(0)


@pytest.fixture
def address(db: None) -> Address:
    """An active primary address on a relay domain, with all that belongs to it."""
    return AddressFactory.create()


@pytest.fixture
def identity(address: Address) -> Identity:
    """An identity that may send."""
    return address.identity
