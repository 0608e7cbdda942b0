"""The few fixtures that every kind of test may use."""

import os
from collections.abc import Iterator
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, settings

from core import clock, points
from mailboxes.models import Address, Identity
from outbound import bell
from tests.factories import AddressFactory

# Examples are not timed: a loaded machine is no fault. CI runs the same ones each time.
settings.register_profile(
    "pylota",
    deadline=None,
    derandomize="CI" in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("pylota")


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
