"""Provider events that come at a bad time, or cannot be applied at all."""

import pytest

from core.clock import database_now
from delivery import inbox, tasks
from delivery.models import ProviderEvent
from delivery.statuses import DeliveryKind
from mailboxes.models import Alert
from mailboxes.statuses import MessageStatus
from outbound.transports.base import Accepted
from tests.services.conftest import assert_units_add_up, events_of, statuses
from tests.services.test_provider_events import A, B, Later, event, sent, take
from tests.support.scripted import ScriptedTransport, work

pytestmark = pytest.mark.django_db


def test_a_complaint_of_one_recipient_does_not_lose_another_who_still_waits(
    scripted: ScriptedTransport, later: Later
) -> None:
    scripted.answers = [Accepted("smtp:relay:1", deferred=(B,))]
    message = sent(scripted, (A, B))
    complaint = event(
        message, DeliveryKind.COMPLAINED, provider_message_id="smtp:relay:1"
    )

    assert take(complaint) == ["applied"]
    later(3600)
    work(message.public_id, scripted)

    message.refresh_from_db()
    assert [call.recipients for call in scripted.calls] == [(A, B), (B,)]
    assert statuses(message) == {A: "complained", B: "submitted"}
    assert message.status == MessageStatus.COMPLAINED
    assert "message.sent" in events_of(message)
    assert_units_add_up(message)


def test_an_event_that_cannot_be_applied_waits_longer_and_takes_no_place(
    scripted: ScriptedTransport,
) -> None:
    message = sent(scripted)
    now = database_now()
    inbox.store([event(message, DeliveryKind.DELIVERED)], due_at=[now])
    broken = ProviderEvent.objects.get()
    broken.payload = {"kind": "of another version"}
    broken.save()

    waits = []
    for _ in range(3):
        ProviderEvent.objects.update(rung_at=now)
        tasks.apply_event(broken.id)
        broken.refresh_from_db()
        assert broken.due_at is not None
        waits.append(round((broken.due_at - now).total_seconds(), -1))
        assert (broken.state, broken.rung_at) == ("pending", None)

    assert waits == [30, 60, 120]
    assert Alert.objects.get().name == "provider_event_failed"
