"""Deleting an identity: nothing accepted is lost, nothing new begins."""

from collections.abc import Callable

import pytest

from core.hashing import address_hash
from delivery.models import OutboundState
from delivery.statuses import DeliveryKind
from mailboxes import deletions
from mailboxes.address_sweeps import retire_due
from mailboxes.deletions import finish_deletions
from mailboxes.identity_services import note_deleted
from mailboxes.key_services import create_key
from mailboxes.models import (
    Address,
    AddressTombstone,
    ApiKey,
    AuditRow,
    Event,
    Identity,
    Message,
)
from mailboxes.statuses import MessageStatus
from outbound import claims
from outbound.alarms import sweep_claims
from outbound.models import LedgerEntry
from outbound.transports.base import Accepted, RetryClass, RetryLater
from tests.factories import AddressFactory, QueuedMessageFactory, ThreadFactory
from tests.services.conftest import assert_units_add_up, events_of, statuses
from tests.services.test_provider_events import event, take
from tests.support.api import ApiClient, booking, code_of
from tests.support.scripted import ScriptedTransport, accepted, work

pytestmark = pytest.mark.django_db
Later = Callable[[float], None]
A, B = "a@example.net", "b@example.net"


@pytest.fixture
def api(identity: Identity) -> ApiClient:
    return ApiClient(create_key(name="t", tenant=identity.tenant).secret, identity.id)


@pytest.fixture
def message(identity: Identity) -> Message:
    thread = ThreadFactory.create(identity=identity)
    return QueuedMessageFactory.create(thread=thread, recipients=(A,))


def delete(api: ApiClient) -> int:
    return int(api.delete(f"/v1/identities/{api.identity_id}").status_code)


def status_of(identity: Identity) -> str:
    identity.refresh_from_db()
    return identity.status


def test_its_addresses_keys_and_mailbox_end_at_once(
    api: ApiClient, identity: Identity
) -> None:
    retired = AddressFactory.create(identity=identity, role="alias", status="retired")
    addresses = list(Address.objects.values_list("address", flat=True))
    own = create_key(name="own", identity=identity)

    answer = api.delete(f"/v1/identities/{identity.id}")

    assert answer.status_code == 202
    assert answer.json()["status"] == "deleting"
    assert (answer.json()["addresses"], answer.json()["primary_address"]) == ([], None)
    assert not Address.objects.exists()
    buried = AddressTombstone.objects.all()
    assert {row.address_hash for row in buried} == set(map(address_hash, addresses))
    assert {(row.identity_id, row.reason) for row in buried} == {
        (identity.id, "deleted")
    }
    assert retired.address in addresses
    own.key.refresh_from_db()
    assert own.key.revoked_at is not None
    refused = ApiClient(own.secret, identity.id).get(f"/v1/identities/{identity.id}")
    assert code_of(refused) == "key_revoked"
    assert ApiKey.objects.filter(revoked_at=None).count() == 1  # the tenant's
    row = AuditRow.objects.get(action="identity.delete")
    assert (row.target_id, row.actor_key_id is None) == (identity.id, False)


def test_a_repeat_is_answered_and_other_writes_find_nothing(
    api: ApiClient, identity: Identity
) -> None:
    path = f"/v1/identities/{identity.id}"
    address = Address.objects.get()
    domain = {"domain_id": address.domain_id, "local_part": "x"}

    assert [delete(api), delete(api)] == [202, 200]
    writes = [
        api.patch(path, {"purpose": "x"}),
        api.post(f"{path}/addresses", domain),
        api.post(f"{path}/addresses/{address.id}/promote"),
        api.post(f"{path}/addresses/{address.id}/retire"),
        api.delete(f"{path}/addresses/{address.id}"),
        api.send(booking()),
    ]

    assert {(w.status_code, code_of(w)) for w in writes} == {
        (404, "identity_not_found")
    }
    assert api.get(path).json()["status"] == "deleting"
    assert AuditRow.objects.filter(action="identity.delete").count() == 1


def test_what_is_queued_is_canceled_and_then_the_identity_ends(
    api: ApiClient,
    identity: Identity,
    message: Message,
    scripted: ScriptedTransport,
) -> None:
    delete(api)
    assert finish_deletions() == 0
    assert status_of(identity) == "deleting"

    work(message.public_id, scripted)

    message.refresh_from_db()
    assert scripted.calls == []
    assert (message.status, message.reason) == ("canceled", "identity_deleted")
    assert_units_add_up(message)
    assert finish_deletions() == 1
    assert status_of(identity) == "deleted"
    assert finish_deletions() == 0
    assert events_of(message) == [
        "identity.updated",
        "message.canceled",
        "identity.updated",
    ]
    assert delete(api) == 200
    assert Message.objects.filter(identity=identity).exists()


def test_what_backs_off_is_canceled_when_its_turn_comes(
    api: ApiClient,
    identity: Identity,
    message: Message,
    scripted: ScriptedTransport,
    later: Later,
) -> None:
    scripted.answers = [RetryLater(RetryClass.RELAY, "451")]
    work(message.public_id, scripted)
    delete(api)
    assert work(message.public_id, scripted) is None
    assert OutboundState.objects.exists()
    assert finish_deletions() == 0
    later(4000)

    work(message.public_id, scripted)

    message.refresh_from_db()
    assert len(scripted.calls) == 1
    assert message.status == MessageStatus.CANCELED
    assert not OutboundState.objects.exists()
    assert finish_deletions() == 1


def test_the_rest_of_a_partly_sent_message_fails(
    api: ApiClient, identity: Identity, scripted: ScriptedTransport, later: Later
) -> None:
    thread = ThreadFactory.create(identity=identity)
    message = QueuedMessageFactory.create(thread=thread, recipients=(A, B))
    scripted.answers = [Accepted("smtp:relay:1", deferred=(B,))]
    work(message.public_id, scripted)
    delete(api)
    later(4000)

    work(message.public_id, scripted)

    assert statuses(message) == {A: "submitted", B: "failed"}
    assert_units_add_up(message)
    assert finish_deletions() == 1


def test_the_outcome_of_a_claimed_message_is_recorded_and_its_events_apply(
    api: ApiClient, identity: Identity, message: Message
) -> None:
    claim = claims.claim(message.public_id)
    assert claim is not None
    delete(api)
    assert finish_deletions() == 0

    claims.record(claim, accepted(claim.outgoing))

    message.refresh_from_db()
    assert message.status == MessageStatus.SUBMITTED
    assert_units_add_up(message)
    assert finish_deletions() == 1
    assert take(event(message, DeliveryKind.DELIVERED)) == ["applied"]
    message.refresh_from_db()
    assert message.status == MessageStatus.DELIVERED


def test_a_claim_that_runs_out_ends_uncertain_and_an_event_settles_it(
    api: ApiClient, identity: Identity, message: Message, later: Later
) -> None:
    assert claims.claim(message.public_id) is not None
    delete(api)
    later(301)

    sweep_claims()

    message.refresh_from_db()
    assert message.status == MessageStatus.UNCERTAIN
    assert finish_deletions() == 1
    found = event(message, DeliveryKind.DELIVERED, provider_message_id="smtp:x:1")
    assert take(found) == ["applied"]
    message.refresh_from_db()
    assert (message.status, message.flags) == ("delivered", ["reconciled"])


def test_a_send_accepted_before_is_replayed_after(
    api: ApiClient, identity: Identity
) -> None:
    first = api.send(booking(), key="k")
    delete(api)

    again = api.send(booking(), key="k")

    assert (again.status_code, again.json()["deduplicated"]) == (202, True)
    assert again.json()["id"] == first.json()["id"]
    assert LedgerEntry.objects.filter(identity_id=identity.id).count() == 1


def test_its_name_is_free_then_but_its_address_never_is(
    api: ApiClient, identity: Identity
) -> None:
    path = f"/v1/tenants/{identity.tenant_id}/identities"
    body = {"username": identity.username, "display_name": "Next"}
    domain_id = Address.objects.get().domain_id
    delete(api)
    assert code_of(api.post(path, body)) == "username_taken"
    finish_deletions()

    on_its_domain = api.post(path, {**body, "domain_id": domain_id})
    on_the_platforms = api.post(path, body)

    assert code_of(on_its_domain) == "address_taken"
    assert on_the_platforms.status_code == 201  # the factory's had none there


def test_one_deletion_that_fails_does_not_stop_the_others(
    api: ApiClient, identity: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = [AddressFactory.create().identity for _ in range(2)]
    Identity.objects.update(status="deleting")

    def fail_once(found: Identity, **given: object) -> None:
        if found.id == others[0].id:
            raise ValueError("not this one")
        note_deleted(found, **given)  # type: ignore[arg-type]

    monkeypatch.setattr(deletions, "note_deleted", fail_once)

    assert finish_deletions() == 2
    assert status_of(others[0]) == "deleting"


def test_an_address_retires_when_its_day_has_come(
    identity: Identity, later: Later, api: ApiClient
) -> None:
    domain = Address.objects.get().domain
    address = AddressFactory.create(
        identity=identity, domain=domain, local_part="x", role="alias"
    )
    api.post(
        f"/v1/identities/{identity.id}/addresses/{address.id}/retire",
        {"after_days": 1},
    )
    assert retire_due() == 0
    later(86_401)

    assert retire_due() == 1
    assert retire_due() == 0

    address.refresh_from_db()
    assert address.status == "retired"
    assert address.retired_at is not None
    told = Event.objects.get(type="identity.address_retired").payload["data"]
    assert told["address"]["id"] == address.id
    actors = AuditRow.objects.filter(action="address.retire").order_by("created_at")
    assert [row.actor_key_id is None for row in actors] == [False, True]
