"""A person settles a send that no evidence settles."""

import pytest

from delivery.errors import NotUncertain
from delivery.services import resolve
from mailboxes.models import Alert, AuditRow, Event, Message
from mailboxes.statuses import MessageStatus
from outbound import claims
from outbound.alarms import sweep_claims
from outbound.transports.base import Accepted, UncertainReason, Unknown
from tests.factories import QueuedMessageFactory
from tests.services.conftest import assert_units_add_up, events_of, statuses
from tests.services.test_provider_events import Later
from tests.support.scripted import ScriptedTransport, accepted, work

pytestmark = pytest.mark.django_db
A, B = "a@example.net", "b@example.net"


@pytest.fixture
def uncertain(scripted: ScriptedTransport) -> Message:
    scripted.answers = [Unknown(UncertainReason.TIMEOUT, "silence")]
    message: Message = QueuedMessageFactory.create(recipients=(A, B))
    work(message.public_id, scripted)
    return message


def test_resolved_as_sent_is_submitted_and_charged(uncertain: Message) -> None:
    resolve(uncertain.public_id, outcome="sent", note="the customer has it")

    uncertain.refresh_from_db()
    assert uncertain.status == MessageStatus.SUBMITTED
    assert uncertain.evidence == "person"
    assert statuses(uncertain) == {A: "submitted", B: "submitted"}
    assert events_of(uncertain) == ["message.uncertain", "message.sent"]
    told = Event.objects.get(type="message.sent").payload["data"]
    assert (told["provider"], told["provider_message_id"]) == ("smtp", None)
    row = AuditRow.objects.get(action="message.resolve")
    assert row.details == {
        "outcome": "sent",
        "note": "the customer has it",
        "deliveries": 2,
    }
    assert_units_add_up(uncertain)


def test_resolved_as_not_sent_is_failed_and_free(uncertain: Message) -> None:
    resolve(uncertain.public_id, outcome="not_sent")

    uncertain.refresh_from_db()
    assert uncertain.status == MessageStatus.FAILED
    assert uncertain.reason == "resolved_not_sent"
    assert events_of(uncertain) == ["message.uncertain", "message.failed"]
    assert_units_add_up(uncertain)


def test_what_is_settled_cannot_be_settled_again(uncertain: Message) -> None:
    resolve(uncertain.public_id, outcome="sent")

    with pytest.raises(NotUncertain):
        resolve(uncertain.public_id, outcome="not_sent")


def test_only_the_uncertain_recipients_of_a_partly_sent_message_change(
    scripted: ScriptedTransport, later: Later
) -> None:
    message = QueuedMessageFactory.create(recipients=(A, B))
    scripted.answers = [
        Accepted("smtp:relay:1", deferred=(B,)),
        Unknown(UncertainReason.CONNECTION_LOST, "reset"),
    ]
    work(message.public_id, scripted)
    later(70)
    work(message.public_id, scripted)

    resolve(message.public_id, outcome="not_sent")

    message.refresh_from_db()
    assert statuses(message) == {A: "submitted", B: "failed"}
    assert message.status == MessageStatus.SUBMITTED
    assert events_of(message) == ["message.uncertain", "message.sent"]
    assert_units_add_up(message)


def test_an_acceptance_after_not_sent_changes_nothing_and_is_reported(
    later: Later,
) -> None:
    message = QueuedMessageFactory.create(recipients=(A,))
    claim = claims.claim(message.public_id)
    assert claim is not None
    later(301)
    sweep_claims()
    resolve(message.public_id, outcome="not_sent")

    claims.record(claim, accepted(claim.outgoing))

    message.refresh_from_db()
    assert message.status == MessageStatus.FAILED
    assert Alert.objects.get().name == "late_outcome_contradicts_resolve"
    assert AuditRow.objects.filter(action="message.late_outcome").exists()
    assert_units_add_up(message)


def test_an_acceptance_after_sent_brings_the_provider_id_and_no_more(
    later: Later,
) -> None:
    message = QueuedMessageFactory.create(recipients=(A,))
    claim = claims.claim(message.public_id)
    assert claim is not None
    later(301)
    sweep_claims()
    resolve(message.public_id, outcome="sent")
    before = events_of(message)

    claims.record(claim, accepted(claim.outgoing))

    message.refresh_from_db()
    assert message.status == MessageStatus.SUBMITTED
    assert message.provider_message_id is not None
    assert events_of(message) == before
    assert_units_add_up(message)
