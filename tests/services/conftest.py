"""What the tests of transactions share."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from core import clock
from core.deadline import Deadline
from delivery.models import Delivery
from mailboxes.key_services import create_key
from mailboxes.models import Event, Identity, Message
from outbound.transports.ses_client import SesAccount, client_of, ending_at
from quota.models import Allowance, Counter, Hold
from tests.support.api import ApiClient
from tests.support.pulling import cloudflare
from tests.support.scripted import ScriptedTransport
from tests.support.ses_server import KEY_ID, REGION, SECRET, SesServer, ses_server

__all__ = ["cloudflare"]


@pytest.fixture
def scripted() -> ScriptedTransport:
    """A transport that answers from a script."""
    return ScriptedTransport()


@pytest.fixture
def own_objects(settings: Settings, tmp_path: Path) -> None:
    """Keep objects in the test's own folder, and limit no rate."""
    settings.PM_RATE_PER_KEY = settings.PM_RATE_PER_TENANT = settings.PM_RATE_SENDS = 0
    store = settings.STORAGES["objects"]
    settings.STORAGES = {
        **settings.STORAGES,
        "objects": {**store, "OPTIONS": {"location": str(tmp_path / "objects")}},
    }


@pytest.fixture
def api(identity: Identity, own_objects: None) -> ApiClient:
    """A client of a live tenant whose identity may send."""
    return ApiClient(create_key(name="t", tenant=identity.tenant).secret, identity.id)


@pytest.fixture
def later() -> Callable[[float], None]:
    """Move the clock on by some seconds."""

    def move(seconds: float) -> None:
        clock.offset += timedelta(seconds=seconds)

    return move


def statuses(message: Message) -> dict[str, str]:
    """Return the status of each recipient."""
    return dict(message.deliveries.values_list("address", "status"))


def events_of(message: Message) -> list[str]:
    """Return the types of the mailbox's events, in their order."""
    found = Event.objects.filter(identity=message.identity).order_by("seq")
    return list(found.values_list("type", flat=True))


def assert_units_add_up(message: Message) -> None:
    """Assert that held, used and the usage are what the rows say."""
    allowance = Allowance.objects.get(tenant=message.tenant_id)
    holds = Hold.objects.filter(tenant=message.tenant_id)
    charged = Delivery.objects.filter(
        tenant=message.tenant_id, charged_at__isnull=False
    )
    assert allowance.held == sum(holds.values_list("units", flat=True))
    assert allowance.used == charged.count()
    assert used_by(message, "sends") == charged.count()
    messages = charged.values("message").distinct()
    assert used_by(message, "outbound") == messages.count()


def used_by(message: Message, metric: str) -> int:
    """Return what was counted of the message's tenant, on whatever days."""
    found = Counter.objects.filter(tenant=message.tenant_id, metric=f"usage:{metric}")
    return sum(found.values_list("value", flat=True))


@pytest.fixture(scope="module")
def ses_of_the_module() -> Iterator[SesServer]:
    """One SES for a module: boto3 takes its time to make a client for an endpoint.

    And its time for the first call, which no deadline of a test is to pay for.
    """
    with ses_server() as server:
        account = SesAccount(REGION, KEY_ID, SECRET, server.url)
        with ending_at(Deadline(60)):
            client_of(account).get_account()
        yield server


@pytest.fixture
def ses(ses_of_the_module: SesServer, settings: Any) -> SesServer:
    """An SES that has seen nothing, and a deployment that sends by it."""
    ses_of_the_module.reset()
    settings.PM_SES_REGION = REGION
    settings.PM_SES_ACCESS_KEY_ID = KEY_ID
    settings.PM_SES_SECRET_ACCESS_KEY = SECRET
    settings.PM_SES_ENDPOINT_URL = ses_of_the_module.url
    settings.PM_SES_CONFIGURATION_SET = "pylota-mail"
    return ses_of_the_module
