"""The factories make rows that every constraint accepts."""

import pytest

from mailboxes.statuses import MessageStatus
from tests.factories import QueuedMessageFactory


@pytest.mark.django_db
def test_a_queued_message_has_its_delivery_and_its_queue_row() -> None:
    message = QueuedMessageFactory.create(recipients=("a@example.net", "b@example.net"))

    assert message.status == MessageStatus.QUEUED
    assert message.deliveries.count() == 2
    assert message.outbound_state.dispatch_at is not None
    assert (message.from_address or "").startswith(message.identity.username)
