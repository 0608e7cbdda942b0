"""Cancel against the claim, and against what else ends a message: one of them wins."""

from functools import partial
from typing import Any

import pytest
from django.db import transaction

from core.database import fetch_one
from mailboxes.models import AuditRow, Event, Identity, Message, Tenant
from mailboxes.tenant_services import suspend_tenant
from outbound.cancel import cancel
from outbound.claims import Claim
from outbound.errors import NotCancelable
from outbound.transports.base import OutgoingMessage, RetryClass, RetryLater
from tests.factories import AddressFactory
from tests.support.bulk_queue import queue_in_bulk
from tests.support.database import database_url
from tests.support.invariants import NO_SUCH_ROWS, books
from tests.support.racers import Action, Racers
from tests.support.scripted import ScriptedTransport, work

pytestmark = pytest.mark.django_db(transaction=True)

ROUNDS = 500
KEYS = "an accepted message that no key stands for"


@pytest.fixture
def identity(transactional_db: None) -> Identity:
    """An identity whose mail waits."""
    return AddressFactory.create().identity


def canceled(message_id: str) -> bool:
    try:
        with transaction.atomic(durable=True):
            cancel(message_id)
    except NotCancelable:
        return False
    return True


def accounts() -> tuple[Any, ...]:
    """Return held, used, the holds, and the least and the greatest count of the day."""
    row = fetch_one(
        "WITH sends AS (SELECT value FROM counters WHERE metric NOT LIKE 'usage:%')"
        " SELECT held, used, (SELECT count(*) FROM holds),"
        " (SELECT min(value) FROM sends), (SELECT max(value) FROM sends)"
        " FROM allowances"
    )
    assert row is not None
    return row


def assert_books_add_up() -> None:
    tenant = Tenant.objects.get().id
    with books(database_url(), [tenant]) as direct:
        for what, statement in NO_SUCH_ROWS.items():
            if what != KEYS:  # these were never posted
                assert direct.execute(statement).fetchall() == [], what


@pytest.mark.timeout(300)
def test_row_10_a_cancel_and_a_claim_at_once_have_one_winner(
    identity: Identity, racers: Racers
) -> None:
    wins = 0
    for n, message in enumerate(queue_in_bulk(identity, ROUNDS)):
        transport = ScriptedTransport()
        race: list[Action] = [
            partial(canceled, message),
            partial(work, message, transport),
        ]

        got = racers.at_once(race if n % 2 else race[::-1])

        was_canceled, claim = got if n % 2 else got[::-1]
        assert isinstance(was_canceled, bool), was_canceled
        assert isinstance(claim, Claim | None), claim
        assert was_canceled == (claim is None)
        assert len(transport.calls) == (0 if was_canceled else 1)
        wins += was_canceled
        waiting, counted = ROUNDS - n - 1, ROUNDS - wins
        assert accounts() == (waiting, n + 1 - wins, waiting, counted, counted)

    stored = Message.objects.values_list("status", flat=True)
    assert sorted(stored) == ["canceled"] * wins + ["submitted"] * (ROUNDS - wins)
    assert Event.objects.filter(type="message.canceled").count() == wins
    assert 0 < wins < ROUNDS  # each side was the faster one at times
    assert_books_add_up()


def test_eight_cancels_at_once_give_back_once(
    identity: Identity, racers: Racers
) -> None:
    for n, message in enumerate(queue_in_bulk(identity, 50)):
        got = racers.at_once([partial(canceled, message)] * 8)

        assert sorted(map(str, got)) == ["False"] * 7 + ["True"]
        assert accounts() == (49 - n, 0, 49 - n, 49 - n, 49 - n)
    assert_books_add_up()


def test_a_cancel_and_a_suspension_at_once_cancel_once(
    identity: Identity, racers: Racers
) -> None:
    """Whoever finds the message first cancels it; the other has nothing to cancel."""
    sent = 0
    for n, message in enumerate(queue_in_bulk(identity, 50)):
        transport = ScriptedTransport()

        got = racers.at_once(
            [
                partial(canceled, message),
                partial(suspend_tenant, identity.tenant_id),
                partial(work, message, transport),
            ]
        )

        assert not [one for one in got if isinstance(one, Exception)]
        work(message, transport)  # what the suspension stopped is canceled when rung
        status = Message.objects.values_list("status", flat=True).get(public_id=message)
        rows = AuditRow.objects.filter(action="message.cancel", target_id=message)
        was_sent = status == "submitted"
        assert was_sent or status == "canceled"
        assert len(transport.calls) == was_sent
        assert rows.count() == (not was_sent)
        sent += was_sent
        counted = 49 - n + sent
        assert accounts() == (49 - n, sent, 49 - n, counted, counted)
        Tenant.objects.update(status="active")
        Identity.objects.update(status="active", pause_reason=None)
    assert_books_add_up()


def put_off(message: OutgoingMessage) -> RetryLater:
    return RetryLater(RetryClass.RELAY, "451")


def test_a_cancel_while_a_call_is_put_off_finds_it_claimed_or_waiting(
    identity: Identity, racers: Racers
) -> None:
    for n, message in enumerate(queue_in_bulk(identity, 50)):
        transport = ScriptedTransport([put_off])

        was_canceled, claim = racers.at_once(
            [partial(canceled, message), partial(work, message, transport)]
        )

        assert not isinstance(claim, Exception)
        assert was_canceled in (True, False)
        if not was_canceled:  # it was claimed then; now it waits
            assert canceled(message)
        assert work(message, transport) is None
        assert len(transport.calls) <= 1
        assert accounts() == (49 - n, 0, 49 - n, 49 - n, 49 - n)
    assert_books_add_up()
