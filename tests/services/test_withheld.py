"""Suppressed between submit and claim: that recipient gets nothing, the rest go."""

import pytest

from core.clock import database_now
from delivery.models import Attempt, Delivery, OutboundState
from mailboxes.models import Message
from quota.models import Hold
from suppressions.models import SendListEntry
from suppressions.services import NewSuppression, suppress
from suppressions.statuses import ListDirection, ListKind, SuppressionReason
from tests.factories import QueuedMessageFactory
from tests.services.conftest import assert_units_add_up, events_of, statuses
from tests.support.scripted import ScriptedTransport, work

pytestmark = pytest.mark.django_db
JO, LEE = "jo@example.net", "lee@example.org"


@pytest.fixture
def message(db: None) -> Message:
    return QueuedMessageFactory.create(recipients=(JO, LEE))


def suppressed(message: Message, *addresses: str) -> None:
    suppress(
        [NewSuppression(address, SuppressionReason.COMPLAINT) for address in addresses],
        tenant_id=message.tenant_id,
        source_message_id=message.public_id,
        now=database_now(),
    )


def test_r27_who_is_suppressed_by_now_gets_no_call(
    message: Message, scripted: ScriptedTransport
) -> None:
    suppressed(message, LEE)

    assert work(message.public_id, scripted) is not None

    assert [call.recipients for call in scripted.calls] == [(JO,)]
    assert statuses(message) == {JO: "submitted", LEE: "suppressed"}
    row = Delivery.objects.get(address=LEE)
    assert (row.reason, row.smtp_response) == (
        "complaint",
        "policy: suppression (complaint)",
    )
    assert_units_add_up(message)
    message.refresh_from_db()
    assert message.status == "submitted"


def test_who_was_blocked_meanwhile_gets_no_call(
    message: Message, scripted: ScriptedTransport
) -> None:
    SendListEntry.objects.create(
        tenant=message.tenant,
        direction=ListDirection.SEND,
        kind=ListKind.BLOCK,
        entry="@example.org",
    )

    assert work(message.public_id, scripted) is not None

    assert [call.recipients for call in scripted.calls] == [(JO,)]
    row = Delivery.objects.get(address=LEE)
    assert (row.status, row.reason) == ("suppressed", "send_block")
    assert row.smtp_response == "policy: send_block"
    assert_units_add_up(message)


def test_r27_with_nobody_left_there_is_no_claim_at_all(
    message: Message, scripted: ScriptedTransport
) -> None:
    suppressed(message, JO, LEE)

    assert work(message.public_id, scripted) is None

    assert scripted.calls == []
    message.refresh_from_db()
    assert message.status == "suppressed"
    assert events_of(message) == ["message.suppressed"]
    assert not Attempt.objects.exists()
    assert not OutboundState.objects.exists()
    assert not Hold.objects.exists()
    assert_units_add_up(message)
