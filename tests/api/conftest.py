"""A client of the API, and no rate limits unless a test asks for them."""

from pathlib import Path

import pytest
from pytest_django import Settings

from mailboxes.key_services import create_key
from mailboxes.models import Identity
from mailboxes.statuses import TenantMode
from tests.factories import AddressFactory
from tests.support.api import ApiClient


@pytest.fixture(autouse=True)
def _ample_settings(settings: Settings, tmp_path: Path) -> None:
    """Limit nothing, and keep objects in the test's own folder."""
    settings.PM_RATE_PER_KEY = 0
    settings.PM_RATE_PER_TENANT = 0
    settings.PM_RATE_SENDS = 0
    objects = settings.STORAGES["objects"]
    settings.STORAGES = {
        **settings.STORAGES,
        "objects": {**objects, "OPTIONS": {"location": str(tmp_path / "objects")}},
    }


def client_of(identity: Identity) -> ApiClient:
    """Return a client with a new tenant key."""
    return ApiClient(create_key(name="t", tenant=identity.tenant).secret, identity.id)


@pytest.fixture
def api(identity: Identity) -> ApiClient:
    """A client of a live tenant whose identity may send."""
    return client_of(identity)


@pytest.fixture
def sandbox_api(db: None) -> ApiClient:
    """A client of a test tenant."""
    address = AddressFactory.create(identity__tenant__mode=TenantMode.TEST)
    return client_of(address.identity)


@pytest.fixture
def platform_api(db: None) -> ApiClient:
    """A client with a platform key that holds every scope."""
    return ApiClient(create_key(name="platform").secret, "")
