"""Which message an event belongs to, and what that proves."""

from datetime import timedelta
from typing import Any

import pytest

from core.clock import database_now
from core.ids import new_id
from delivery.models import Attempt, Delivery, ProviderEvent
from delivery.services import apply_event, resolve
from delivery.statuses import DeliveryKind
from mailboxes.models import Address, Alert, Event, Identity, Message
from mailboxes.statuses import AddressRole, AddressStatus
from outbound import claims
from outbound.alarms import sweep_claims
from outbound.transports.base import Accepted, UncertainReason, Unknown
from tests.factories import AddressFactory, QueuedMessageFactory
from tests.services.conftest import assert_units_add_up, events_of, statuses
from tests.services.test_provider_events import Later
from tests.support.counters import counts
from tests.support.doubts import A, B, doubts, stored, told
from tests.support.scripted import ScriptedTransport, work

pytestmark = pytest.mark.django_db

DELIVERED = DeliveryKind.DELIVERED


def hear(message: Message, kind: DeliveryKind = DELIVERED, **fields: Any) -> str | None:
    """Store what a provider says, apply it, and read the message again."""
    fields.setdefault("event_id", new_id("evt"))
    state = apply_event(*stored(told(message, kind, **fields)))
    message.refresh_from_db()
    return state


@pytest.fixture
def doubt(identity: Identity) -> Message:
    """A send in doubt, to two recipients."""
    return doubts(identity, 1, recipients=(A, B))[0]


# --- grades of evidence


def test_our_own_tag_settles_a_doubt_whatever_the_subject(doubt: Message) -> None:
    fields: dict[str, Any] = {"subject": None, "provider_message_id": "ses-1"}

    assert hear(doubt, tag=doubt.public_id, **fields) == "applied"

    assert (doubt.evidence, doubt.flags) == ("tag", ["reconciled"])
    assert (doubt.provider_message_id, doubt.provider) == ("ses-1", "smtp")
    assert events_of(doubt) == ["message.reconciled", "message.delivered"]
    assert_units_add_up(doubt)


def test_the_provider_s_id_of_a_call_settles_a_doubt(doubt: Message) -> None:
    Attempt.objects.filter(message=doubt).update(provider_message_id="p-1")

    assert hear(doubt, subject=None, provider_message_id="p-1") == "applied"

    assert (doubt.evidence, doubt.provider_message_id) == ("provider_id", "p-1")


def test_after_a_match_the_other_recipients_are_found_by_the_provider_s_id(
    doubt: Message,
) -> None:
    assert hear(doubt, provider_message_id="p-1") == "applied"
    assert (doubt.status, doubt.evidence) == ("uncertain", "match")

    # a complaint names no subject, and the message is in doubt no more
    fields: dict[str, Any] = {"subject": None, "provider_message_id": "p-1"}
    assert hear(doubt, DeliveryKind.COMPLAINED, recipient=B, **fields) == "applied"

    assert statuses(doubt) == {A: "delivered", B: "complained"}
    assert (doubt.status, doubt.evidence) == ("complained", "match")
    told_of = Event.objects.filter(type="message.reconciled")
    assert [one.payload["data"]["status"] for one in told_of] == ["uncertain"]
    assert_units_add_up(doubt)


def test_an_event_with_our_tag_never_goes_by_likeness(doubt: Message) -> None:
    assert hear(doubt, tag=new_id("msg"), provider_message_id="p-1") == "pending"
    assert doubt.status == "uncertain"


def test_a_tag_of_another_mailbox_s_message_finds_nothing(doubt: Message) -> None:
    stranger = doubts(AddressFactory.create().identity, 1)[0]

    assert hear(doubt, tag=stranger.public_id) == "pending"

    stranger.refresh_from_db()
    assert {doubt.status, stranger.status} == {"uncertain"}


def test_an_event_whose_tag_is_gone_is_found_by_the_provider_s_id(
    doubt: Message,
) -> None:
    Attempt.objects.filter(message=doubt).update(provider_message_id="p-1")

    assert hear(doubt, tag=new_id("msg"), provider_message_id="p-1") == "applied"


# --- likeness


def test_several_that_could_be_meant_change_nothing_and_are_counted(
    identity: Identity, django_capture_on_commit_callbacks: Any
) -> None:
    messages = doubts(identity, 2)
    Message.objects.update(subject="The same")
    messages[0].refresh_from_db()

    with (
        counts("reconcile_ambiguous_total", 1),
        counts("reconciled_total", 0, transport="smtp"),
        django_capture_on_commit_callbacks(execute=True),
    ):
        assert hear(messages[0]) == "pending"

    assert set(Message.objects.values_list("status", flat=True)) == {"uncertain"}
    assert set(Delivery.objects.values_list("status", flat=True)) == {"uncertain"}


def test_one_that_is_found_is_counted(
    doubt: Message, django_capture_on_commit_callbacks: Any
) -> None:
    with (
        counts("reconciled_total", 1, transport="smtp"),
        counts("reconcile_ambiguous_total", 0),
        django_capture_on_commit_callbacks(execute=True),
    ):
        for recipient in (A, B):
            assert hear(doubt, recipient=recipient) == "applied"


@pytest.mark.parametrize(
    ("minutes", "state"), [(-31, "orphaned"), (-4, "applied"), (29, "applied")]
)
def test_an_event_counts_from_5_minutes_before_to_30_after_the_doubt(
    doubt: Message, minutes: int, state: str
) -> None:
    """The event says now; the doubt is so many minutes older, or younger."""
    at = database_now() - timedelta(minutes=minutes)
    Delivery.objects.update(updated_at=at)
    Attempt.objects.update(claimed_at=at)
    when = {-31: database_now() - timedelta(minutes=6)}.get(minutes, database_now())

    assert hear(doubt, occurred_at=when) == state


@pytest.mark.parametrize(
    "other",
    [{"subject": "Doubt"}, {"subject": None}, {"recipient": "c@example.net"}],
)
def test_what_is_not_alike_matches_nothing(
    doubt: Message, other: dict[str, Any]
) -> None:
    assert hear(doubt, **other) == "pending"
    assert doubt.status == "uncertain"


def test_what_a_provider_took_without_an_id_is_matched_too(
    scripted: ScriptedTransport,
) -> None:
    """Architecture, section 9: older versions of Cloudflare name no message."""
    scripted.answers = [Accepted(None)]
    message: Message = QueuedMessageFactory.create(recipients=(A, B))
    work(message.public_id, scripted)

    assert hear(message, provider_message_id="cf-1") == "applied"
    assert hear(message, recipient=B, subject=None, provider_message_id="cf-1")

    assert statuses(message) == {A: "delivered", B: "delivered"}
    assert (message.provider_message_id, message.evidence) == ("cf-1", None)
    assert events_of(message) == ["message.sent", *["message.delivered"] * 2]
    assert_units_add_up(message)


def test_two_that_a_provider_took_without_an_id_are_ambiguous(
    scripted: ScriptedTransport, identity: Identity
) -> None:
    first: Message = QueuedMessageFactory.create(recipients=(A,))
    second = QueuedMessageFactory.create(recipients=(A,), thread=first.thread)
    for message in (first, second):
        scripted.answers = [Accepted(None)]
        work(message.public_id, scripted)

    assert hear(first, provider_message_id="cf-1") == "pending"
    assert first.status == "submitted"


def test_the_rest_that_leaves_later_is_matched_by_its_own_call(
    scripted: ScriptedTransport, later: Later
) -> None:
    # Given A taken by a relay, and B in doubt after a call of its own
    message: Message = QueuedMessageFactory.create(recipients=(A, B))
    scripted.answers = [
        Accepted("smtp:relay:1", deferred=(B,)),
        Unknown(UncertainReason.TIMEOUT, "silence"),
    ]
    work(message.public_id, scripted)
    later(70)
    work(message.public_id, scripted)

    # When events come for B under an id that nobody has heard of, and A bounces
    rest: dict[str, Any] = {"recipient": B, "provider_message_id": "cf-2"}
    assert hear(message, DeliveryKind.DEFERRED, **rest) == "applied"
    assert hear(message, DELIVERED, subject=None, **rest) == "applied"
    bounce: dict[str, Any] = {"hard": True, "provider_message_id": "smtp:relay:1"}
    assert hear(message, DeliveryKind.BOUNCED, **bounce) == "applied"

    # Then each was found, and the message keeps its first id
    assert statuses(message) == {A: "bounced", B: "delivered"}
    assert message.provider_message_id == "smtp:relay:1"
    calls = Attempt.objects.order_by("n").values_list("provider_message_id", flat=True)
    assert list(calls) == ["smtp:relay:1", "cf-2"]
    assert_units_add_up(message)


# --- senders


def fall_back(message: Message) -> Address:
    """Let the last call have left from another address of the identity."""
    alias: Address = AddressFactory.create(
        identity=message.identity, role=AddressRole.ALIAS, local_part="fallback"
    )
    Attempt.objects.filter(message=message).update(from_address=alias.address)
    return alias


def test_a_fallback_is_matched_by_the_sender_of_its_call(doubt: Message) -> None:
    own, alias = str(doubt.from_address), fall_back(doubt)

    assert hear(doubt, event_id="own") == "pending"
    doubt.from_address = alias.address
    assert hear(doubt) == "applied"

    doubt.refresh_from_db()
    assert (doubt.from_address, doubt.evidence) == (own, "match")


def test_an_orphan_of_a_fallback_is_looked_at_again(later: Later) -> None:
    message: Message = QueuedMessageFactory.create(recipients=(A,))
    assert claims.claim(message.public_id) is not None
    message.from_address = fall_back(message).address
    (row,) = stored(told(message, DELIVERED, provider_message_id="p-1"))
    later(331)
    assert apply_event(row) == "orphaned"

    sweep_claims()

    assert ProviderEvent.objects.get().state == "pending"
    assert apply_event(row) == "applied"
    message.refresh_from_db()
    assert message.status == "delivered"


@pytest.mark.parametrize("status", AddressStatus)
def test_an_event_is_routed_by_the_sender_s_address_whatever_became_of_it(
    doubt: Message, status: AddressStatus
) -> None:
    Address.objects.filter(identity=doubt.identity).update(status=status)

    assert hear(doubt) == "applied"


# --- against a person


@pytest.mark.parametrize("found", ["tag", "provider_id"])
def test_an_event_that_contradicts_not_sent_changes_nothing_and_raises_an_alert(
    doubt: Message, found: str
) -> None:
    """Architecture, section 9."""
    Attempt.objects.filter(message=doubt).update(provider_message_id="p-1")
    resolve(doubt.public_id, outcome="not_sent")
    before = events_of(doubt)
    fields: dict[str, Any] = {"provider_message_id": "p-1"}
    if found == "tag":
        fields = {"tag": doubt.public_id}

    assert hear(doubt, **fields) == "refused"
    assert hear(doubt, DeliveryKind.BOUNCED, hard=True, **fields) == "refused"

    assert (doubt.status, doubt.evidence) == ("failed", "person")
    assert statuses(doubt) == {A: "failed", B: "failed"}
    assert events_of(doubt) == before
    kept = ProviderEvent.objects.filter(message=doubt, state="refused")
    assert kept.count() == 2
    alert = Alert.objects.get()
    assert (alert.name, alert.subject, alert.severity) == (
        "event_contradicts_person",
        doubt.public_id,
        "ticket",
    )
    assert alert.details["kind"] == "bounced"
    assert_units_add_up(doubt)


@pytest.mark.parametrize("kind", [DeliveryKind.FAILED, DeliveryKind.REJECTED])
def test_an_event_that_agrees_with_not_sent_raises_no_alert(
    doubt: Message, kind: DeliveryKind
) -> None:
    resolve(doubt.public_id, outcome="not_sent")

    assert hear(doubt, kind, tag=doubt.public_id) == "applied"

    assert (doubt.status, doubt.reason) == ("failed", "resolved_not_sent")
    assert not Alert.objects.exists()


def test_an_event_after_sent_goes_on_from_there(doubt: Message) -> None:
    resolve(doubt.public_id, outcome="sent")

    assert hear(doubt, tag=doubt.public_id, provider_message_id="p-1") == "applied"

    assert statuses(doubt) == {A: "delivered", B: "submitted"}
    assert (doubt.evidence, doubt.provider_message_id) == ("person", "p-1")
    assert "message.reconciled" not in events_of(doubt)
    assert_units_add_up(doubt)


def test_what_was_canceled_stays_so_and_an_event_of_it_raises_an_alert() -> None:
    message: Message = QueuedMessageFactory.create(recipients=(A,))
    message.outbound_state.delete()
    Message.objects.filter(pk=message.pk).update(status="canceled")

    assert hear(message, tag=message.public_id) == "refused"

    assert (message.status, statuses(message)) == ("canceled", {A: "queued"})
    assert Alert.objects.get().name == "event_contradicts_person"
    assert_units_add_up(message)


# --- reasons


@pytest.mark.parametrize("kind", [DeliveryKind.FAILED, DeliveryKind.REJECTED])
def test_a_message_that_a_provider_gave_up_says_why(
    doubt: Message, kind: DeliveryKind
) -> None:
    said = {"smtp_code": "554", "smtp_response": "not wanted"}
    for recipient in (A, B):
        hear(doubt, kind, recipient=recipient, tag=doubt.public_id, **said)

    assert (doubt.status, doubt.reason) == (kind, "provider_validation")
    data = Event.objects.get(type=f"message.{kind}").payload["data"]
    detail = {"detail": "not wanted"} if kind == DeliveryKind.REJECTED else {}
    assert data == {
        "message_id": doubt.public_id,
        "reason": "provider_validation",
        **detail,
    }
