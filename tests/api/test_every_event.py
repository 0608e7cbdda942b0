"""Each type of event that this version raises is raised by something that happens.

That each has the data that its schema says is asked of every event of every test; see
``tests/support/published.py``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import jsonschema_rs
import pytest
from django.db import transaction
from pytest_django import Settings

from core import clock
from core.ids import new_id
from domains.selectors import domain_of_address
from domains.statuses import DomainState
from mailboxes.address_sweeps import activate_addresses
from mailboxes.models import Event, Message
from outbound import claims
from outbound.alarms import sweep_claims
from pylota.api.views import describe
from quota.models import Allowance
from tests.factories import DomainFactory
from tests.support.api import ApiClient, booking
from tests.support.loops import Box, new_box, two_boxes, work
from tests.support.outbox import DATA, happen
from tests.support.published import NotAsPublished, check_payload
from tests.support.scripted import accepted
from webhooks.catalogue import EVENT_TYPES, LATER, OF_WEBHOOKS, RAISED
from webhooks.schemas import EVENTS

pytestmark = pytest.mark.django_db


@dataclass
class World:
    """A mailbox of a test tenant, and the operator of the deployment."""

    box: Box
    operator: ApiClient

    @property
    def tenant(self) -> str:
        """Return the path of the tenant."""
        return f"/v1/tenants/{self.box.identity.tenant_id}"

    @property
    def identity(self) -> str:
        """Return the path of the identity."""
        return f"/v1/identities/{self.box.identity.id}"

    def simulate(self, script: str) -> Message:
        """Send to the simulator, and let all happen that follows."""
        message = self.box.send(f"{script}@simulator.invalid")
        work()
        return message

    def post(self, path: str, body: Any = None) -> Any:
        """Post as the tenant; return the answer's JSON."""
        answer = self.box.api.post(path, body)
        assert answer.status_code < 300, answer.content
        return answer.json()

    def patch(self, path: str, body: Any) -> None:
        """Change something as the operator."""
        answer = self.operator.patch(path, body)
        assert answer.status_code == 200, answer.content

    def add_address(self, **domain: Any) -> Any:
        """Add an address to the identity, on a new domain."""
        made = DomainFactory.create(tenant=self.box.identity.tenant, **domain)
        body = {"domain_id": made.id, "local_part": "desk"}
        return self.post(f"{self.identity}/addresses", body)


@pytest.fixture
def world(platform_api: ApiClient) -> World:
    """A world in which nothing has happened."""
    return World(new_box(), platform_api)


def receive_mail(world: World) -> None:
    ada, bob = two_boxes()
    ada.send(bob)
    work()


def resolve_not_sent(world: World) -> None:
    message = world.simulate("timeout")
    world.post(
        f"{world.box.api.path}/{message.public_id}/resolve", {"outcome": "not_sent"}
    )


def record_too_late(world: World) -> None:
    message = world.box.send("delivered@simulator.invalid")
    claim = claims.claim(message.public_id)
    assert claim is not None
    clock.offset += timedelta(minutes=6)
    assert sweep_claims() == 1
    claims.record(claim, accepted(claim.outgoing))


def send_to_suppressed(world: World) -> None:
    suppress(world)
    world.box.send("jo@simulator.invalid")


def cancel(world: World) -> None:
    message = world.box.send("delivered@simulator.invalid")
    world.post(f"{world.box.api.path}/{message.public_id}/cancel")


def create_identity(world: World) -> None:
    owner = {"name": "Ada", "email": "ada@example.com"}
    body = {"username": "desk", "display_name": "Desk", "owner": owner}
    world.post(f"{world.tenant}/identities", body)


def pause(world: World) -> None:
    world.patch(world.identity, {"status": "paused"})


def resume(world: World) -> None:
    pause(world)
    world.patch(world.identity, {"status": "active"})


def activate_address(world: World) -> None:
    address = world.add_address(state=DomainState.PENDING)
    assert address["status"] == "pending"
    with transaction.atomic():
        activate_addresses(domain_of_address(address["domain_id"]))


def retire_address(world: World) -> None:
    address = world.add_address()
    path = f"{world.identity}/addresses/{address['id']}/retire"
    world.post(path, {"after_days": 0})


def promote_address(world: World) -> None:
    address = world.add_address()
    world.post(f"{world.identity}/addresses/{address['id']}/promote")


def suppress(world: World) -> None:
    world.post(f"{world.tenant}/suppressions", {"address": "jo@simulator.invalid"})


def reach_a_cap(world: World) -> None:
    world.patch(f"{world.tenant}/policy", {"policy": {"identity_daily_send_cap": 1}})
    world.box.send("delivered@simulator.invalid")


def reach_the_plan(world: World) -> None:
    world.patch(f"{world.tenant}/billing", {"mode": "metered"})
    Allowance.objects.filter(feature="sends").update(used=1000)
    body = booking(to=["delivered@simulator.invalid"])
    assert world.box.api.send(body).status_code == 402


SCENARIOS: dict[str, Callable[[World], object]] = {
    "message.sent": lambda world: world.simulate("delivered"),
    "message.delivered": lambda world: world.simulate("delivered"),
    "message.deferred": lambda world: world.simulate("deferred"),
    "message.bounced": lambda world: world.simulate("bounce"),
    "message.complained": lambda world: world.simulate("complaint"),
    "message.rejected": lambda world: world.simulate("reject"),
    "message.failed": resolve_not_sent,
    "message.uncertain": lambda world: world.simulate("timeout"),
    "message.reconciled": record_too_late,
    "message.suppressed": send_to_suppressed,
    "message.canceled": cancel,
    "message.received": receive_mail,
    "identity.created": create_identity,
    "identity.updated": lambda world: world.patch(world.identity, {"purpose": "desk"}),
    "identity.paused": pause,
    "identity.resumed": resume,
    "identity.address_added": lambda world: world.add_address(),
    "identity.address_activated": activate_address,
    "identity.address_retired": retire_address,
    "identity.address_promoted": promote_address,
    "suppression.created": suppress,
    "quota.warning": reach_a_cap,
    "billing.limit_reached": reach_the_plan,
    "tenant.policy_updated": lambda world: world.patch(
        f"{world.tenant}/policy", {"policy": {"max_recipients": 9}}
    ),
}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("event_type", SCENARIOS)
def test_each_type_is_raised_with_the_data_that_is_published(
    world: World, event_type: str, settings: Settings
) -> None:
    settings.PM_BILLING = "stripe"

    SCENARIOS[event_type](world)

    found = list(Event.objects.filter(type=event_type))
    assert found
    components = {"components": describe()["components"]}
    body = describe()["webhooks"][event_type]["post"]["requestBody"]
    schema = body["content"]["application/json"]["schema"]
    fits = jsonschema_rs.validator_for({**components, **schema})
    for event in found:
        check_payload(event.payload)
        assert [str(error) for error in fits.iter_errors(event.payload)] == []


def test_every_type_has_a_scenario_or_is_of_a_later_version() -> None:
    assert set(SCENARIOS) == set(RAISED)
    assert set(EVENTS) == set(RAISED) | set(OF_WEBHOOKS)
    assert set(EVENTS) | set(LATER) == EVENT_TYPES
    assert set(describe()["webhooks"]) == set(EVENTS)


@pytest.mark.parametrize(
    ("event_type", "data"),
    [
        ("message.canceled", {"message_id": "msg_1"}),
        ("message.canceled", {"sender": "jo@example.net"}),
        ("quota.warning", {"used": "4"}),
        ("quota.warning", {"scope": "platform"}),
        ("suppression.created", {"source_message_id": ...}),
    ],
)
def test_data_that_is_not_as_published_fails_the_test_that_raises_it(
    world: World, event_type: str, data: dict[str, Any]
) -> None:
    changed = {**DATA[event_type], **data}
    told = {name: value for name, value in changed.items() if value is not ...}
    payload = {
        "id": new_id("evt"),
        "type": event_type,
        "api_version": "2026-10-01",
        "occurred_at": "2026-11-02T09:15:20.114Z",
        "tenant_id": None,
        "identity_id": None,
        "sequence": None,
    }

    check_payload({**payload, "data": DATA[event_type]})
    with pytest.raises(NotAsPublished):
        check_payload({**payload, "data": told})
    with pytest.raises(NotAsPublished):
        check_payload({**payload, "type": "message.lost", "data": DATA[event_type]})
    with pytest.raises(NotAsPublished):
        happen(world.box.identity, event_type, something="else")
