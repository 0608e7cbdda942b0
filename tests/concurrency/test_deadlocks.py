"""Everything that locks, at once: the database never has to break a deadlock."""

from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from typing import Any

import psycopg
import pytest
from django.db import OperationalError, connection, transaction
from pytest_django import Settings

from core import clock
from core.database import execute
from delivery.models import Delivery, ProviderEvent
from delivery.services import apply_event, resolve
from inbound.models import InboundJob
from inbound.receive import receive
from mailboxes.key_services import create_key
from mailboxes.models import Message
from mailboxes.tenant_services import suspend_tenant
from outbound import claims
from outbound.alarms import sweep_claims
from outbound.deliver import deliver
from quota.services import sweep_holds
from tests.factories import TenantFactory
from tests.support.api import ApiClient, booking
from tests.support.database import database_url
from tests.support.invariants import NO_SUCH_ROWS, books
from tests.support.loops import two_boxes, work
from tests.support.racers import Racers
from tests.support.scripted import accepted
from tests.support.storm import RECIPIENTS, Round, Storm

pytestmark = pytest.mark.django_db(transaction=True)

ROUNDS = 200
EXCHANGES = 20
COUNTED = (
    "a tenant whose held is not the sum of its open holds",
    "a tenant whose used is not the count of its charged deliveries",
    "a delivery that is charged and not accepted, or the reverse",
    "a hold of a message that is not queued",
    "a message that was announced twice in the same way",
    "a mailbox whose events are not numbered without a gap",
)


class Deadlocks:
    """How many deadlocks the database has broken since this was made."""

    def __init__(self) -> None:
        self._session: psycopg.Connection[Any] = psycopg.connect(
            database_url(), autocommit=True
        )
        self._before = self._total()

    def count(self) -> int:
        """Return the number; sessions that took part must have ended."""
        return self._total() - self._before

    def close(self) -> None:
        """End the session."""
        self._session.close()

    def _total(self) -> int:
        self._session.execute("SELECT pg_stat_clear_snapshot()")
        row = self._session.execute(
            "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        ).fetchone()
        assert row is not None
        return int(row[0])


@pytest.fixture
def deadlocks() -> Iterator[Deadlocks]:
    """Count the deadlocks of this test."""
    counter = Deadlocks()
    yield counter
    counter.close()


def test_the_counter_sees_a_deadlock(racers: Racers, deadlocks: Deadlocks) -> None:
    """Proves that the tests below could fail."""
    one, other = TenantFactory.create().id, TenantFactory.create().id

    def lock(first: str, second: str) -> None:
        with transaction.atomic():
            for tenant in (first, second):
                execute(
                    "UPDATE tenants SET name = name || '.' WHERE id = %(id)s",
                    {"id": tenant},
                )
                execute("SELECT pg_sleep(0.2)")

    got = racers.at_once([partial(lock, one, other), partial(lock, other, one)])

    assert [type(result) for result in got if result] == [OperationalError]
    racers.close()
    assert deadlocks.count() == 1


def test_all_that_locks_at_once_never_deadlocks(
    racers: Racers, deadlocks: Deadlocks, settings: Settings
) -> None:
    """Row 30: 200 rounds on a tenant with 200 mailboxes and the same recipients.

    A suspension, two answers of a bulk resolve, the sweep of holds and of claims, the
    record of a sent message, bounces of two mailboxes, a submit.
    """
    settings.PM_RATE_SENDS = settings.PM_RATE_PER_KEY = settings.PM_RATE_PER_TENANT = 0
    storm = Storm(mailboxes=200, senders=5, rounds=ROUNDS)
    secret = create_key(name="storm", tenant=storm.tenant).secret
    answers: list[int] = []

    def submit(number: int) -> None:
        sender = storm.sender_ids[number % len(storm.sender_ids)]
        answer = ApiClient(secret, sender).send(
            booking(to=list(RECIPIENTS)), key=f"storm-{number}"
        )
        answers.append(answer.status_code)

    def sweep() -> None:
        sweep_holds()
        sweep_claims()

    def actions(number: int, ready: Round) -> list[Any]:
        return [
            partial(suspend_tenant, storm.tenant.id),
            partial(resolve, ready.doubts[0], outcome="sent"),
            partial(resolve, ready.doubts[1], outcome="not_sent"),
            sweep,
            partial(claims.record, ready.record, accepted(ready.record.outgoing)),
            *[partial(apply_event, event) for event in ready.bounces],
            partial(submit, number),
        ]

    for number, ready in enumerate(storm.rounds):
        storm.quiet()
        got = racers.at_once(actions(number, ready))
        assert not [one for one in got if isinstance(one, Exception)]
    racers.close()

    # Then no deadlock was broken, no submit failed for one, and the rows add up
    assert deadlocks.count() == 0
    assert set(answers) <= {202, 403, 409}
    assert 202 in answers
    recorded = [ready.record.message_id for ready in storm.rounds]
    sent = Message.objects.filter(public_id__in=recorded, status="submitted")
    assert sent.count() == ROUNDS
    bounced = Delivery.objects.filter(status="bounced").count()
    assert bounced == 2 * ROUNDS
    with books(database_url(), [storm.tenant.id]) as accounts:
        for what in COUNTED:
            assert accounts.execute(NO_SUCH_ROWS[what]).fetchall() == [], what
    connection.close()


def test_two_mailboxes_that_write_to_each_other_never_deadlock(
    racers: Racers, deadlocks: Deadlocks, settings: Settings
) -> None:
    """Row 30: loopback both ways, while copies come in and events are applied."""
    settings.PM_RATE_SENDS = settings.PM_RATE_PER_KEY = settings.PM_RATE_PER_TENANT = 0
    ada, bob = two_boxes()
    jobs = InboundJob.objects.filter(state="pending").order_by("id")
    events = ProviderEvent.objects.filter(state="pending").order_by("due_at", "id")

    for n in range(EXCHANGES):
        clock.offset += timedelta(minutes=1)
        sent = [ada.send(bob, key=f"ada-{n}"), bob.send(ada, key=f"bob-{n}")]
        got = racers.at_once(
            [
                *[partial(deliver, message.public_id) for message in sent],
                *[partial(receive, job) for job in jobs.values_list("id", flat=True)],
                *[partial(apply_event, row.id) for row in events],
                sweep_holds,
                partial(bob.api.send, booking(to=[ada.address]), key=f"more-{n}"),
            ]
        )
        assert not [one for one in got if isinstance(one, Exception)]
    racers.close()

    # Then no deadlock was broken, each copy is there once, and the rows add up
    assert deadlocks.count() == 0
    for _ in range(2):
        work()
    assert (len(bob.received()), len(ada.received())) == (EXCHANGES, 2 * EXCHANGES)
    assert not Delivery.objects.exclude(status="delivered").exists()
    with books(database_url(), [ada.identity.tenant_id]) as accounts:
        for what in COUNTED:
            assert accounts.execute(NO_SUCH_ROWS[what]).fetchall() == [], what
