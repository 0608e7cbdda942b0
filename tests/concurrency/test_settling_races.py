"""A settlement of many sends, beside events, another tab, and a held mailbox."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from django.db import connection, connections, transaction

from core.clock import database_now
from delivery.services import apply_event
from delivery.statuses import DeliveryKind
from mailboxes.models import AuditRow, Message
from mailboxes.services import lock_mailbox
from quota.models import Allowance
from staff.models import Settlement
from staff.settling import services
from staff.settling.asked import Asked
from tests.factories import AddressFactory
from tests.services.conftest import assert_units_add_up
from tests.support.doubts import doubts, stored, told, told_of
from tests.support.racers import Racers
from tests.support.staff import member

SENDS = 200


def started(outcome: services.Outcome) -> Settlement:
    user = member("support")
    now = database_now()
    made, _ = services.prepare(Asked(), user_id=user.pk, until=now)
    given = {"outcome": outcome, "reason": "the log", "now": now}
    assert services.start(made.id, user_id=user.pk, **given)  # type: ignore[arg-type]
    return made


def to_the_end(settlement: Settlement) -> None:
    """Go on as a tab does, until it is done."""
    while Settlement.objects.get(id=settlement.id).state == "running":
        services.go_on(settlement.id)


def apply_all(inbox_ids: Sequence[str]) -> None:
    for inbox_id in inbox_ids:
        apply_event(inbox_id)


def test_events_and_a_second_tab_beside_a_settlement_double_nothing(
    racers: Racers,
) -> None:
    # Given 200 sends of four mailboxes, and events for half of them, the last first
    identities = [AddressFactory.create().identity for _ in range(4)]
    messages = [m for one in identities for m in doubts(one, SENDS // 4)]
    heard = messages[::-2]
    events = stored(*(told(message, DeliveryKind.DELIVERED) for message in heard))
    settlement = started("not_sent")

    # When two tabs go on while the events arrive
    ended = racers.at_once(
        [
            partial(to_the_end, settlement),
            partial(to_the_end, settlement),
            partial(apply_all, events[::2]),
            partial(apply_all, events[1::2]),
        ]
    )

    # Then each send is settled once, by whoever was faster, and counted as such
    assert ended == [None] * 4
    settlement.refresh_from_db()
    by_person = Message.objects.filter(status="failed", evidence="person")
    by_event = Message.objects.filter(status="delivered", evidence="match")
    assert by_person.count() + by_event.count() == SENDS
    assert SENDS - len(heard) <= by_person.count() < SENDS
    assert settlement.settled == by_person.count()
    assert sorted(settlement.overtaken) == sorted(
        by_event.values_list("key", flat=True)
    )
    assert settlement.changed == []
    assert settlement.state == "done"
    audited = AuditRow.objects.filter(action="message.resolve")
    assert audited.count() == audited.values("target_id").distinct().count()
    assert audited.count() == settlement.settled
    assert told_of("message.failed") == settlement.settled
    used = sum(Allowance.objects.values_list("used", flat=True))
    assert used == by_event.count()
    for identity in identities:
        assert_units_add_up(identity.messages.order_by("key")[0])


def test_two_people_give_the_same_sends_opposite_answers(racers: Racers) -> None:
    identity = AddressFactory.create().identity
    messages = doubts(identity, 40)
    sent, not_sent = started("sent"), _started_by_another("not_sent")

    racers.at_once([partial(to_the_end, sent), partial(to_the_end, not_sent)])

    sent.refresh_from_db()
    not_sent.refresh_from_db()
    assert sent.settled + not_sent.settled == len(messages)
    assert len(sent.changed) == not_sent.settled
    assert len(not_sent.changed) == sent.settled
    assert Message.objects.filter(status="submitted").count() == sent.settled
    assert Allowance.objects.get(tenant=identity.tenant_id).used == sent.settled


def _started_by_another(outcome: services.Outcome) -> Settlement:
    now = database_now()
    user = member("support", "grace")
    made, _ = services.prepare(Asked(), user_id=user.pk, until=now)
    services.start(
        made.id, user_id=user.pk, outcome=outcome, reason="the other log", now=now
    )
    return made


def test_a_mailbox_that_is_held_too_long_keeps_no_other(
    transactional_db: None,
) -> None:
    # Given two mailboxes, and somebody who holds one of them for longer than is waited
    held, free = (doubts(AddressFactory.create().identity, 1)[0] for _ in range(2))
    settlement = started("sent")

    def go_on() -> None:
        try:
            with connection.cursor() as cursor:
                cursor.execute("SET lock_timeout = '200ms'")
            services.go_on(settlement.id)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool, transaction.atomic():
        lock_mailbox(held.identity_id)
        pool.submit(go_on).result()

    # Then that one is left in doubt, to be looked at, and the other is settled
    settlement.refresh_from_db()
    assert (settlement.state, settlement.settled) == ("done", 1)
    assert settlement.changed == [held.key]
    assert set(Message.objects.values_list("key", "status")) == {
        (held.key, "uncertain"),
        (free.key, "submitted"),
    }
