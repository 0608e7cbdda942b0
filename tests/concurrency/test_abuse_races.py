"""Two workers apply the events that cross a threshold: one pause, told once."""

from collections.abc import Iterator
from functools import partial

import pytest

from core.clock import database_now
from core.database import execute, fetch_one
from delivery import inbox
from delivery.events import DeliveryEvent
from delivery.models import ProviderEvent
from delivery.services import apply_event
from delivery.statuses import DeliveryKind, EventSource
from mailboxes.models import Message
from mailboxes.services import pause_identity
from mailboxes.tenant_services import resume_tenant, suspend_tenant
from quota.models import RecentOutcome
from tests.concurrency.test_deadlocks import Deadlocks
from tests.factories import AddressFactory, QueuedMessageFactory
from tests.support.racers import Racers
from tests.support.scripted import ScriptedTransport, work

pytestmark = pytest.mark.django_db(transaction=True)
RECIPIENT = "jo@example.net"


@pytest.fixture
def sent(transactional_db: None) -> list[Message]:
    """Two messages of one identity that a provider has taken."""
    identity = AddressFactory.create().identity
    messages = QueuedMessageFactory.create_batch(2, thread__identity=identity)
    for message in messages:
        work(message.public_id, ScriptedTransport())
        message.refresh_from_db()
    return messages


@pytest.fixture
def deadlocks() -> Iterator[Deadlocks]:
    counter = Deadlocks()
    yield counter
    counter.close()


# one statement each a round: most of the time is the race's
RESET = """
WITH i AS (UPDATE identities SET status = 'active', pause_reason = NULL),
     m AS (UPDATE messages SET status = 'submitted'),
     d AS (UPDATE deliveries SET status = 'submitted', bounce_type = NULL,
                                 provider_event_ids = '[]'),
     o AS (DELETE FROM outcomes),
     e AS (DELETE FROM provider_events)
INSERT INTO outcomes (tenant_id, identity_id, event_hash, outcome, at)
SELECT tenant_id, id, encode(sha256(convert_to(%(n)s || ':' || n, 'UTF8')), 'hex'),
       %(outcome)s, now()
  FROM identities, generate_series(1, %(number)s) AS n
"""


PAUSES = """
SELECT pause_reason, (SELECT count(*) FROM events WHERE type = 'identity.paused'),
       (SELECT count(*) FROM audit_log WHERE action = 'identity.auto_pause'),
       (SELECT count(*) FROM alerts)
  FROM identities
"""


def one_short_of(kind: DeliveryKind, sent: list[Message], n: int) -> list[str]:
    """Set all back to before the threshold, and store an event for each message."""
    number = 3 if kind == DeliveryKind.COMPLAINED else 10
    execute(RESET, {"n": str(n), "outcome": str(kind), "number": number})
    now = database_now()
    events = [
        DeliveryEvent(
            source=EventSource.SES,
            event_id=f"{message.public_id}:{n}",
            provider_message_id=message.provider_message_id,
            sender=message.from_address or "",
            recipient=RECIPIENT,
            kind=kind,
            occurred_at=now,
            hard=True,
        )
        for message in sent
    ]
    inbox.store(events, due_at=[now] * len(events))
    return list(ProviderEvent.objects.values_list("id", flat=True))


def test_two_events_over_the_threshold_at_once_pause_once(
    racers: Racers, sent: list[Message], deadlocks: Deadlocks
) -> None:
    """A hundred rounds, of complaints and of bounces by turns."""
    kinds = (DeliveryKind.COMPLAINED, DeliveryKind.BOUNCED)

    for n in range(100):
        due = one_short_of(kinds[n % 2], sent, n)

        assert racers.at_once([partial(apply_event, row) for row in due]) == [
            "applied",
            "applied",
        ]
        assert fetch_one(PAUSES) == ("abuse_threshold", n + 1, n + 1, 1)

    assert RecentOutcome.objects.filter(is_judged=True).count() == 12
    racers.close()
    assert deadlocks.count() == 0


def test_a_pause_for_abuse_meets_those_of_people_without_a_deadlock(
    racers: Racers, sent: list[Message], deadlocks: Deadlocks
) -> None:
    """By hand and with the tenant: the first pause stands, alone."""
    identity = sent[0].identity
    reasons = set()

    for n in range(15):
        due = one_short_of(DeliveryKind.COMPLAINED, sent, n)

        got = racers.at_once(
            [
                *[partial(apply_event, row) for row in due],
                partial(pause_identity, identity.id),
                partial(suspend_tenant, identity.tenant_id),
            ]
        )

        assert not [error for error in got if isinstance(error, Exception)]
        reason, told, *_ = fetch_one(PAUSES) or (None, 0)
        assert (reason is not None, told) == (True, n + 1)
        reasons.add(reason)
        resume_tenant(identity.tenant_id)
    assert reasons <= {"abuse_threshold", "manual", "tenant_suspended"}
    racers.close()
    assert deadlocks.count() == 0
