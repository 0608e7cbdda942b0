"""Row 36, fourth run: a relay takes A and defers B, until B's 24 hours are over."""

import pytest
from pytest_django import Settings

from core import clock
from core.clock import database_now
from delivery.models import Attempt, OutboundState
from mailboxes.models import Message
from outbound.deliver import deliver
from tests.factories import QueuedMessageFactory
from tests.services.conftest import assert_units_add_up, events_of, statuses
from tests.support.queued import thread_with_relay
from tests.support.smtp_script import Script
from tests.support.smtp_server import SmtpServer

pytestmark = pytest.mark.django_db

A, B = "a@example.net", "b@example.net"


def _ring_until_it_ends(message: Message) -> None:
    while (state := OutboundState.objects.filter(message=message).first()) is not None:
        if state.retry_at is not None:
            clock.offset += state.retry_at - database_now()
        deliver(message.public_id)


def test_row_36_who_is_deferred_for_a_day_has_failed_and_who_was_taken_is_not_asked(
    settings: Settings,
) -> None:
    settings.PM_BACKOFF_SCALE = 6  # from six minutes to six hours: fewer calls
    with SmtpServer(Script(always={"rcpt": {B: "451 4.2.1 later"}})) as relay:
        message = QueuedMessageFactory.create(
            thread=thread_with_relay(relay), recipients=(A, B)
        )

        _ring_until_it_ends(message)

        (mail,) = relay.mails
        assert mail.recipients == [A]
        asked = [line for each in relay.connections for line, _ in each.commands]
        assert sum(A in line for line in asked) == 1
        assert sum(B in line for line in asked) == len(relay.connections) >= 5
    message.refresh_from_db()
    assert statuses(message) == {A: "submitted", B: "failed"}
    assert message.status == "submitted"
    assert Attempt.objects.filter(recipients=[B]).count() == len(relay.connections) - 1
    assert events_of(message) == ["message.sent"]
    assert_units_add_up(message)
