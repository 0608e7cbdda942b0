"""What the tests of transactions share."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from core import clock
from delivery.models import Delivery
from mailboxes.models import Event, Message
from quota.models import Allowance, Hold
from tests.support.scripted import ScriptedTransport


@pytest.fixture
def scripted() -> ScriptedTransport:
    """A transport that answers from a script."""
    return ScriptedTransport()


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
    """Assert that held and used are what the rows say."""
    allowance = Allowance.objects.get(tenant=message.tenant_id)
    holds = Hold.objects.filter(tenant=message.tenant_id)
    charged = Delivery.objects.filter(
        tenant=message.tenant_id, charged_at__isnull=False
    )
    assert allowance.held == sum(holds.values_list("units", flat=True))
    assert allowance.used == charged.count()
