"""Provider events: found, deduplicated, applied once, in one transaction."""

from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import permutations

import pytest

from core.clock import database_now
from delivery import inbox
from delivery.events import DeliveryEvent
from delivery.models import ProviderEvent
from delivery.services import apply_event, resolve
from delivery.statuses import DeliveryKind, EventSource
from mailboxes.models import Event, Message
from mailboxes.statuses import MessageStatus
from outbound import claims
from outbound.alarms import sweep_claims
from outbound.transports.base import Accepted, UncertainReason, Unknown
from suppressions.models import Suppression
from tests.factories import QueuedMessageFactory
from tests.services.conftest import assert_units_add_up, events_of, statuses
from tests.support.scripted import ScriptedTransport, accepted, work

pytestmark = pytest.mark.django_db
Later = Callable[[float], None]
A, B = "a@example.net", "b@example.net"


def sent(
    scripted: ScriptedTransport, recipients: tuple[str, ...] = (A,), **fields: object
) -> Message:
    message = QueuedMessageFactory.create(recipients=recipients, **fields)
    work(message.public_id, scripted)
    message.refresh_from_db()
    return message


def event(
    message: Message,
    kind: DeliveryKind,
    *,
    recipient: str = A,
    event_id: str = "",
    provider_message_id: str | None = None,
    hard: bool = False,
    occurred_at: datetime | None = None,
) -> DeliveryEvent:
    return DeliveryEvent(
        source=EventSource.SIMULATOR,
        event_id=event_id or f"{kind}:{recipient}:{hard}",
        provider_message_id=provider_message_id or message.provider_message_id,
        sender=message.from_address or "",
        recipient=recipient,
        kind=kind,
        occurred_at=occurred_at or database_now(),
        subject=message.subject,
        hard=hard,
        smtp_code="550" if kind == DeliveryKind.BOUNCED else None,
        smtp_response="5.1.1 no such user" if kind == DeliveryKind.BOUNCED else None,
    )


def take(*events: DeliveryEvent) -> list[str | None]:
    """Store events and apply what is pending, as the worker would."""
    inbox.store(events, due_at=[database_now()] * len(events))
    pending = ProviderEvent.objects.filter(state="pending").order_by("id")
    return [apply_event(row) for row in list(pending.values_list("id", flat=True))]


def test_a_delivery_moves_its_recipient_and_the_message(
    scripted: ScriptedTransport,
) -> None:
    message = sent(scripted)

    assert take(event(message, DeliveryKind.DELIVERED)) == ["applied"]

    message.refresh_from_db()
    assert message.status == MessageStatus.DELIVERED
    assert events_of(message) == ["message.sent", "message.delivered"]
    assert_units_add_up(message)


def test_an_event_that_comes_twice_is_stored_and_applied_once(
    scripted: ScriptedTransport,
) -> None:
    message = sent(scripted)
    told = event(message, DeliveryKind.DELIVERED)

    assert inbox.store([told, told], due_at=[database_now()] * 2) == 1
    assert inbox.store([told], due_at=[database_now()]) == 0
    row = ProviderEvent.objects.get().id

    assert apply_event(row) == "applied"
    assert apply_event(row) is None
    assert events_of(message).count("message.delivered") == 1


def test_an_event_applied_before_under_the_same_id_is_a_duplicate(
    scripted: ScriptedTransport,
) -> None:
    message = sent(scripted)
    take(event(message, DeliveryKind.DEFERRED, event_id="x"))
    ProviderEvent.objects.all().delete()

    assert take(event(message, DeliveryKind.DELIVERED, event_id="x")) == ["duplicate"]
    assert statuses(message) == {A: "deferred"}


def test_a_hard_bounce_suppresses_its_recipient_once_and_says_so(
    scripted: ScriptedTransport,
) -> None:
    message = sent(scripted, (A, B))

    take(event(message, DeliveryKind.BOUNCED, hard=True))
    take(event(message, DeliveryKind.BOUNCED, hard=True, event_id="again"))

    suppression = Suppression.objects.get()
    assert (suppression.reason, suppression.address_hint) == (
        "hard_bounce",
        "a***@example.net",
    )
    told = Event.objects.get(type="suppression.created").payload
    assert told["data"]["source_message_id"] == message.public_id
    bounced = Event.objects.filter(type="message.bounced").first()
    assert bounced is not None
    assert bounced.payload["data"] == {
        "message_id": message.public_id,
        "recipient": A,
        "bounce_type": "hard",
        "smtp_code": "550",
        "smtp_response": "5.1.1 no such user",
        "suppressed": True,
    }
    assert_units_add_up(message)


def test_a_soft_bounce_suppresses_nobody(scripted: ScriptedTransport) -> None:
    message = sent(scripted)

    take(event(message, DeliveryKind.BOUNCED, hard=False))

    message.refresh_from_db()
    assert message.status == MessageStatus.BOUNCED
    assert not Suppression.objects.exists()


def test_a_complaint_suppresses_and_outranks_a_delivery(
    scripted: ScriptedTransport,
) -> None:
    message = sent(scripted)

    take(event(message, DeliveryKind.DELIVERED))
    take(event(message, DeliveryKind.COMPLAINED))

    message.refresh_from_db()
    assert message.status == MessageStatus.COMPLAINED
    assert Suppression.objects.get().reason == "complaint"


def test_a_stale_event_changes_nothing_and_says_nothing(
    scripted: ScriptedTransport,
) -> None:
    message = sent(scripted)
    take(event(message, DeliveryKind.DELIVERED))
    before = events_of(message)

    take(event(message, DeliveryKind.DEFERRED))

    assert statuses(message) == {A: "delivered"}
    assert events_of(message) == before


def test_the_sequence_of_a_mailbox_rises_without_a_gap(
    scripted: ScriptedTransport,
) -> None:
    message = sent(scripted, (A, B))
    take(event(message, DeliveryKind.DELIVERED))
    take(event(message, DeliveryKind.BOUNCED, recipient=B, hard=True))

    rows = Event.objects.filter(identity=message.identity).order_by("seq")
    assert [row.seq for row in rows] == list(range(1, len(rows) + 1))
    assert all(row.payload["sequence"] == row.seq for row in rows)


def test_an_event_before_the_record_waits_and_is_applied_after_it(
    later: Later,
) -> None:
    message = QueuedMessageFactory.create(recipients=(A,))
    claim = claims.claim(message.public_id)
    assert claim is not None
    early = event(
        message,
        DeliveryKind.DELIVERED,
        provider_message_id=accepted(claim.outgoing).provider_message_id,
    )

    assert take(early) == ["pending"]
    claims.record(claim, accepted(claim.outgoing))
    row = ProviderEvent.objects.get()
    assert row.due_at is not None
    assert row.due_at - database_now() <= timedelta(seconds=30)
    apply_event(row.id)

    message.refresh_from_db()
    assert message.status == MessageStatus.DELIVERED


def test_an_event_of_no_message_is_orphaned_once_it_is_old(
    scripted: ScriptedTransport,
) -> None:
    message = sent(scripted)
    lost = event(message, DeliveryKind.DELIVERED, provider_message_id="unknown")
    old = event(
        message,
        DeliveryKind.DELIVERED,
        event_id="old",
        provider_message_id="unknown",
        occurred_at=database_now() - timedelta(seconds=331),
    )

    assert take(lost, old) == ["pending", "orphaned"]


def test_an_event_of_an_unknown_sender_is_unroutable(
    scripted: ScriptedTransport,
) -> None:
    message = sent(scripted)
    message.from_address = "nobody@example.org"

    assert take(event(message, DeliveryKind.DELIVERED)) == ["unroutable"]


def test_a_late_event_reconciles_the_one_uncertain_send_it_fits(
    scripted: ScriptedTransport,
) -> None:
    scripted.answers = [Unknown(UncertainReason.TIMEOUT, "silence")]
    message = sent(scripted)

    take(event(message, DeliveryKind.DELIVERED, provider_message_id="p-1"))

    message.refresh_from_db()
    assert message.status == MessageStatus.DELIVERED
    assert message.provider_message_id == "p-1"
    assert (message.flags, message.evidence) == (["reconciled"], "match")
    assert events_of(message) == [
        "message.uncertain",
        "message.reconciled",
        "message.delivered",
    ]
    assert_units_add_up(message)


def test_two_like_uncertain_sends_are_ambiguous_and_stay(
    scripted: ScriptedTransport,
) -> None:
    silence = Unknown(UncertainReason.TIMEOUT, "silence")
    scripted.answers = [silence, silence]
    first = sent(scripted)
    second = sent(scripted, thread=first.thread, from_address=first.from_address)

    told = event(first, DeliveryKind.DELIVERED, provider_message_id="p-1")

    assert take(told) == ["pending"]
    for message in (first, second):
        message.refresh_from_db()
        assert message.status == MessageStatus.UNCERTAIN


def test_the_event_of_a_like_message_in_flight_does_not_settle_the_lost_one(
    scripted: ScriptedTransport,
) -> None:
    """Row 34: the first stays in doubt, the second ends by its own record and event."""
    # Given an uncertain send, and a like one whose record has not come yet
    scripted.answers = [Unknown(UncertainReason.TIMEOUT, "silence")]
    lost = sent(scripted)
    other = QueuedMessageFactory.create(
        recipients=(A,), thread=lost.thread, from_address=lost.from_address
    )
    claim = claims.claim(other.public_id)
    assert claim is not None

    # When the other's event overtakes its record
    told = event(other, DeliveryKind.DELIVERED, provider_message_id="p-2")
    assert take(told) == ["pending"]
    claims.record(claim, Accepted("p-2"))
    apply_event(ProviderEvent.objects.get().id)

    # Then each has its own end
    lost.refresh_from_db()
    other.refresh_from_db()
    assert lost.status == MessageStatus.UNCERTAIN
    assert other.status == MessageStatus.DELIVERED


def test_a_message_resolved_by_hand_is_a_candidate_still(
    scripted: ScriptedTransport,
) -> None:
    silence = Unknown(UncertainReason.TIMEOUT, "silence")
    scripted.answers = [silence, silence]
    resolved = sent(scripted)
    lost = sent(scripted, thread=resolved.thread, from_address=resolved.from_address)
    resolve(resolved.public_id, outcome="not_sent")

    told = event(lost, DeliveryKind.DELIVERED, provider_message_id="p-1")

    assert take(told) == ["pending"]
    lost.refresh_from_db()
    assert lost.status == MessageStatus.UNCERTAIN


def test_an_orphan_is_looked_at_again_when_its_message_turns_uncertain(
    later: Later,
) -> None:
    # Given a worker that died after its claim, and an event that found no message
    message = QueuedMessageFactory.create(recipients=(A,))
    assert claims.claim(message.public_id) is not None
    told = event(message, DeliveryKind.DELIVERED, provider_message_id="p-1")
    assert take(told) == ["pending"]
    later(331)
    assert apply_event(ProviderEvent.objects.get().id) == "orphaned"

    # When the alarm turns the message uncertain
    sweep_claims()

    # Then the orphan is due again, and settles it
    row = ProviderEvent.objects.get()
    assert row.state == "pending"
    assert apply_event(row.id) == "applied"
    message.refresh_from_db()
    assert message.status == MessageStatus.DELIVERED
    assert_units_add_up(message)


ORDER = [
    (DeliveryKind.DEFERRED, False),
    (DeliveryKind.DELIVERED, False),
    (DeliveryKind.BOUNCED, True),
    (DeliveryKind.COMPLAINED, False),
]


@pytest.mark.parametrize("order", list(permutations(ORDER)))
def test_events_in_any_order_each_twice_end_the_same(
    scripted: ScriptedTransport, order: list[tuple[DeliveryKind, bool]]
) -> None:
    message = sent(scripted)

    for kind, hard in order:
        told = event(message, kind, hard=hard)
        take(told)
        take(told)

    message.refresh_from_db()
    assert message.status == MessageStatus.COMPLAINED
    assert_units_add_up(message)
