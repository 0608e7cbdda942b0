"""A row that a sweep cannot settle keeps no other row waiting."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from django.db import connection
from structlog.testing import capture_logs

from core import clock
from core.database import execute
from mailboxes.models import Message
from mailboxes.statuses import MessageStatus
from outbound import claims
from outbound.alarms import sweep_claims
from quota.models import Hold
from quota.services import sweep_holds
from tests.factories import QueuedMessageFactory
from tests.support.database import database_url

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def stranger() -> Iterator[psycopg.Connection[Any]]:
    """Another session, which holds what it has locked; ours waits briefly for it."""
    execute("SET lock_timeout = '200ms'")
    with psycopg.connect(database_url()) as session:
        yield session
        session.rollback()
    connection.close()  # the next test's session has its own limits again


def lock_the_mailbox_of(message: Message, session: psycopg.Connection[Any]) -> None:
    session.execute(
        "SELECT 1 FROM mailbox_state WHERE identity_id = %s FOR UPDATE",
        [message.identity_id],
    )


def test_an_old_claim_that_cannot_be_ended_does_not_starve_the_next(
    stranger: psycopg.Connection[Any],
) -> None:
    stuck, other = QueuedMessageFactory.create(), QueuedMessageFactory.create()
    for message in (stuck, other):
        assert claims.claim(message.public_id) is not None
    clock.offset += timedelta(seconds=301)
    lock_the_mailbox_of(stuck, stranger)

    with capture_logs() as lines:
        assert sweep_claims() == 1

    other.refresh_from_db()
    assert other.status == MessageStatus.UNCERTAIN
    assert [line["event"] for line in lines] == ["claim_alarm_failed"]
    stranger.rollback()
    assert sweep_claims() == 1


def test_a_hold_that_cannot_be_swept_does_not_keep_the_next(
    stranger: psycopg.Connection[Any],
) -> None:
    stuck, other = QueuedMessageFactory.create(), QueuedMessageFactory.create()
    for message in (stuck, other):
        assert claims.claim(message.public_id) is not None
    Message.objects.update(status=MessageStatus.UNCERTAIN)
    clock.offset += timedelta(days=2)
    lock_the_mailbox_of(stuck, stranger)

    assert sweep_holds() == 1

    assert Hold.objects.get().ref == stuck.public_id
