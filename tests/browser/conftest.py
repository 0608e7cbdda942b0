"""The staff's ways through the admin, in a real Chromium; ``make test-browser``."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client

from mailboxes.models import Identity
from tests.factories import AddressFactory
from tests.support.chromium import Chromium, Tab
from tests.support.staff import member

BACKEND = "django.contrib.auth.backends.ModelBackend"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder: it needs a browser."""
    for item in items:
        if item.path.parent.name == "browser":
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Chromium]:
    """One browser for all tests."""
    found = Chromium()
    yield found
    found.end()


@pytest.fixture
def tab(live_server: Any, chromium: Chromium) -> Iterator[Callable[..., Tab]]:
    """Open a tab, logged in with a role where one is named: ``tab("viewer")``."""

    def opened(role: str = "", *, user: User | None = None, **view: Any) -> Tab:
        cookies = []
        if role or user:
            client = Client()
            client.force_login(user or member(role), backend=BACKEND)
            name = settings.SESSION_COOKIE_NAME
            value = client.cookies[name].value
            cookies = [{"name": name, "value": value, "url": live_server.url}]
        return chromium.tab(live_server.url, cookies=cookies, **view)

    yield opened
    chromium.close_tabs()


@pytest.fixture
def identity_of_a_test(transactional_db: None) -> Identity:
    """An identity that may send, for tests that commit."""
    found: Identity = AddressFactory.create().identity
    return found
