"""Recipients that are set aside: on every route, in every field, and never an error."""

from typing import Any

import pytest

from core.clock import database_now
from delivery.models import Delivery, OutboundState
from mailboxes.models import Contact, Event, Identity, Message, Tenant, Thread
from quota.models import Allowance, Counter, Hold
from suppressions.models import SendListEntry, Suppression
from suppressions.services import NewSuppression, suppress
from suppressions.statuses import SuppressionReason
from tests.factories import AddressFactory
from tests.support.answering import named, received
from tests.support.api import ApiClient, booking

pytestmark = pytest.mark.django_db
R = SuppressionReason


def suppressed(identity: Identity, *addresses: str, reason: R = R.HARD_BOUNCE) -> None:
    suppress(
        [NewSuppression(address, reason) for address in addresses],
        tenant_id=identity.tenant_id,
        source_message_id="msg_" + "0" * 26,
        now=database_now(),
    )


def listed(identity: Identity, kind: str, entry: str) -> None:
    SendListEntry.objects.create(
        tenant=identity.tenant, direction="send", kind=kind, entry=entry
    )


def deliveries(response: Any) -> dict[str, tuple[str, str | None, str | None]]:
    assert response.status_code == 202, response.content
    rows = Delivery.objects.filter(message__public_id=response.json()["id"])
    return {row.address: (row.status, row.reason, row.smtp_response) for row in rows}


@pytest.mark.parametrize("reason", list(R))
def test_a_suppressed_recipient_is_set_aside_and_the_rest_go(
    api: ApiClient, identity: Identity, reason: R
) -> None:
    suppressed(identity, "lee@example.org", reason=reason)

    response = api.send(booking(cc=["lee@example.org"]))

    assert deliveries(response) == {
        "jo@example.net": ("queued", None, None),
        "lee@example.org": ("suppressed", reason, f"policy: suppression ({reason})"),
    }
    assert response.json()["status"] == "queued"
    shown = {d["address"]: d["reason"] for d in response.json()["deliveries"]}
    assert shown == {"jo@example.net": None, "lee@example.org": reason}
    assert Hold.objects.get().units == 1
    assert Contact.objects.get().address == "jo@example.net"


@pytest.mark.parametrize(
    ("suppressed_as", "written"),
    [
        ("user@example.com", "user@example.com"),
        ("user@example.com", " USER@example.com "),
        ("user@example.com", "User@Example.COM"),
        ("ana@xn--bcher-kva.example", "ana@bücher.example"),
        ("ana@xn--bcher-kva.example", "ana@XN--BCHER-KVA.example"),
    ],
)
def test_r25_a_suppressed_address_is_known_in_every_spelling(
    api: ApiClient, identity: Identity, suppressed_as: str, written: str
) -> None:
    suppressed(identity, suppressed_as)

    response = api.send(booking(to=[written]))

    assert [d["status"] for d in response.json()["deliveries"]] == ["suppressed"]
    assert suppressed_as not in Suppression.objects.get().address_hash


@pytest.mark.parametrize("field", ["to", "cc", "bcc"])
@pytest.mark.parametrize("route", ["send", "forward"])
def test_r26_a_suppressed_address_is_set_aside_in_every_field(
    api: ApiClient, identity: Identity, route: str, field: str
) -> None:
    suppressed(identity, "lee@example.org")
    body: dict[str, Any] = {"to": ["jo@example.net"], "text": "Hello"}
    body[field] = ["lee@example.org"] if field != "to" else [
        "jo@example.net", "lee@example.org",
    ]  # fmt: skip

    if route == "send":
        response = api.send({**body, "subject": "x"})
    else:
        response = api.answer("forward", received(identity).public_id, body)

    assert deliveries(response)["lee@example.org"][0] == "suppressed"
    assert deliveries(response)["jo@example.net"][0] == "queued"


@pytest.mark.parametrize("route", ["reply", "reply-all"])
def test_r26_a_suppressed_address_is_set_aside_when_it_is_answered(
    api: ApiClient, identity: Identity, route: str
) -> None:
    suppressed(identity, "jo@example.net", "lee@example.org")
    asked = received(identity, cc_addrs=named("lee@example.org"))

    found = deliveries(api.answer(route, asked.public_id))

    assert found["jo@example.net"][0] == "suppressed"
    if route == "reply-all":
        assert found["lee@example.org"][0] == "suppressed"


def test_lists_and_rules_set_aside_as_well(api: ApiClient, identity: Identity) -> None:
    Tenant.objects.update(policy={"send_allowlist_only": True})
    Identity.objects.update(send_policy={"require_known_recipient": True})
    listed(identity, "allow", "@example.net")
    listed(identity, "block", "lee@example.net")
    listed(identity, "allow", "known@example.org")
    now = database_now()
    Contact.objects.create(
        identity=identity,
        tenant=identity.tenant,
        address="known@example.org",
        domain="example.org",
        first_seen_at=now,
        last_seen_at=now,
        inbound_count=1,
    )

    body = booking(
        to=["jo@example.net", "lee@example.net", "kim@example.org", "known@example.org"]
    )

    assert deliveries(api.send(body)) == {
        "jo@example.net": (
            "suppressed",
            "unknown_recipient",
            "policy: unknown_recipient",
        ),
        "lee@example.net": ("suppressed", "send_block", "policy: send_block"),
        "kim@example.org": (
            "suppressed",
            "not_on_allowlist",
            "policy: not_on_allowlist",
        ),
        "known@example.org": ("queued", None, None),
    }


def test_with_nobody_left_the_send_is_accepted_and_ends_suppressed(
    api: ApiClient, identity: Identity
) -> None:
    suppressed(identity, "jo@example.net", "lee@example.org")

    response = api.send(booking(bcc=["lee@example.org"]))

    assert (response.status_code, response.json()["status"]) == (202, "suppressed")
    message = Message.objects.get()
    assert message.status == "suppressed"
    assert not OutboundState.objects.exists()
    assert not Hold.objects.exists()
    assert not Contact.objects.exists()
    assert Allowance.objects.get().held == 0
    counted = Counter.objects.exclude(metric__startswith="warned:")
    assert sorted(counted.values_list("metric", "value")) == [
        ("sends", 1),
        (f"sends:{identity.id}", 1),
    ]
    event = Event.objects.get(type="message.suppressed")
    assert event.payload["data"] == {
        "message_id": message.public_id,
        "recipients": ["jo@example.net", "lee@example.org"],
    }
    again = api.send(booking(bcc=["lee@example.org"]))
    assert again.json() == {**response.json(), "deduplicated": True}


def test_a_suppressed_answer_keeps_no_lock_on_its_thread(
    api: ApiClient, identity: Identity
) -> None:
    suppressed(identity, "jo@example.net")
    asked = received(identity)

    first = api.answer("reply", asked.public_id, key="a")
    second = api.answer("reply", asked.public_id, key="b")

    assert [r.json()["status"] for r in (first, second)] == ["suppressed"] * 2
    assert Thread.objects.get().lock_owner is None


def test_another_tenants_rows_set_nobody_aside(api: ApiClient) -> None:
    other = AddressFactory.create().identity
    suppressed(other, "jo@example.net")
    listed(other, "block", "@example.net")

    assert deliveries(api.send(booking()))["jo@example.net"][0] == "queued"
