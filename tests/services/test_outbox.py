"""Events get their places once they are committed, and go to who asked for them."""

import inspect
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from django.db import OperationalError, connection, transaction

from core.clock import database_now
from mailboxes.models import Event, Identity
from outbound import dispatch
from outbound.dispatcher import Dispatcher
from tests.factories import AddressFactory, TenantFactory
from tests.support.outbox import happen, happen_to_tenant, listening, places
from tests.support.processes import until
from tests.support.racers import Racers
from webhooks import outbox
from webhooks.matching import Interest, Occurrence, is_told
from webhooks.models import WebhookDispatch, WebhookEndpoint
from webhooks.statuses import DisabledReason, DispatchState

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def racers(transactional_db: None) -> Iterator[Racers]:
    """Eight threads that start together."""
    threads = Racers(8)
    yield threads
    threads.close()


def told() -> set[tuple[str, str]]:
    """Return which endpoint is told of which event."""
    return set(WebhookDispatch.objects.values_list("endpoint_id", "event_id"))


def as_interest(endpoint: WebhookEndpoint) -> Interest:
    return Interest(
        endpoint.tenant_id,
        endpoint.events,
        endpoint.identity_ids,
        endpoint.disabled_reason is None,
        endpoint.created_at,
    )


def as_occurrence(event: Event) -> Occurrence:
    return Occurrence(event.type, event.tenant_id, event.identity_id, event.occurred_at)


def test_places_rise_in_the_order_in_which_events_were_stored(
    identity: Identity,
) -> None:
    ids = [happen(identity), happen_to_tenant(identity.tenant), happen(identity)]

    assert outbox.number_events().events == 3
    assert outbox.number_events().events == 0

    found = places()
    assert sorted(ids, key=lambda one: found[one] or 0) == ids
    assert None not in found.values()
    assert not Event.objects.filter(dispatched_at=None).exists()


def test_an_identitys_events_keep_their_sequence_whatever_their_clock_says(
    identity: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given events of which each says that it happened before the one before it
    monkeypatch.setattr(outbox, "_PARAMETERS", {**outbox._PARAMETERS, "limit": 2})
    now = database_now()
    ids = [happen(identity, at=now - timedelta(seconds=n)) for n in range(5)]

    assert outbox.number_all() == 5

    assert list(Event.objects.order_by("position").values_list("id", flat=True)) == ids


def test_each_endpoint_is_told_of_what_it_asked_for(identity: Identity) -> None:
    """The statement and ``webhooks.matching`` agree, for every pair."""
    # Given endpoints of every kind
    other = AddressFactory.create(identity__tenant=identity.tenant).identity
    stranger = AddressFactory.create().identity
    now = database_now()
    for tenant in (identity.tenant, stranger.tenant, None):
        for events in (["*"], ["message.canceled"], ["tenant.policy_updated", "*"]):
            for ids in (None, [identity.id], [stranger.id, other.id]):
                listening(tenant, *events, identity_ids=ids)
        listening(tenant, "webhook.disabled", "webhook.test")
        listening(tenant, created_at=now + timedelta(hours=1))
        listening(tenant, created_at=now - timedelta(hours=1))
        listening(tenant, disabled_reason=DisabledReason.MANUAL, disabled_at=now)

    # When things happen to everybody
    for one in (identity, other, stranger):
        happen(one)
        happen(one, "quota.warning")
        happen(one, at=now - timedelta(minutes=1))
    happen_to_tenant(identity.tenant)
    happen_to_tenant(stranger.tenant, "webhook.disabled")
    numbered = outbox.number_events()

    # Then each pair is told, or not told, as the pure rule says
    expected = {
        (endpoint.id, event.id)
        for endpoint in WebhookEndpoint.objects.all()
        for event in Event.objects.all()
        if is_told(as_interest(endpoint), as_occurrence(event))
    }
    assert told() == expected
    assert numbered.dispatches == len(expected) > 40


def test_what_is_told_is_due_at_once_in_the_order_of_the_feed(
    identity: Identity,
) -> None:
    listening(identity.tenant)
    ids = [happen(identity) for _ in range(3)]

    outbox.number_events()

    rows = list(WebhookDispatch.objects.order_by("id"))
    assert [row.event_id for row in rows] == ids
    for row in rows:
        assert (row.state, row.event_type) == (
            DispatchState.PENDING,
            "message.canceled",
        )
        assert row.due_at is not None
        assert row.due_at <= database_now()


def test_an_event_that_was_replayed_first_is_not_told_twice(identity: Identity) -> None:
    endpoint = listening(identity.tenant)
    event_id = happen(identity)
    WebhookDispatch.objects.create(
        endpoint=endpoint,
        event_id=event_id,
        event_type="message.canceled",
        due_at=database_now(),
    )

    assert outbox.number_events() == outbox.Numbered(1, 0)
    assert WebhookDispatch.objects.count() == 1


def test_a_dispatcher_that_dies_before_its_commit_leaves_all_to_the_next(
    identity: Identity, racers: Racers
) -> None:
    # Given one that has numbered, holds the lock, and whose session is killed
    listening(identity.tenant)
    ids = [happen(identity) for _ in range(3)]
    number: Callable[[], outbox.Numbered] = inspect.unwrap(outbox._number)

    def die() -> None:
        with transaction.atomic():
            assert number() == outbox.Numbered(3, 3)
            assert racers.at_once([outbox.number_events]) == [outbox.Numbered()]
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    with pytest.raises(OperationalError):
        die()
    connection.close()
    assert set(places().values()) == {None}
    assert told() == set()

    # Then the next one numbers and tells each once
    until(lambda: outbox.number_events().events == 3, what="the lock to be free")
    found = places()
    assert sorted(ids, key=lambda one: found[one] or 0) == ids
    assert WebhookDispatch.objects.count() == 3


def test_dispatchers_at_once_give_no_place_twice(
    identity: Identity, racers: Racers
) -> None:
    listening(identity.tenant)
    for _ in range(20):
        for _ in range(5):
            happen(identity)
        results = racers.at_once([outbox.number_events] * 8)
        assert sum(r.events for r in results if isinstance(r, outbox.Numbered)) == 5
    assert WebhookDispatch.objects.count() == 100


def test_a_broker_that_is_away_keeps_no_event_from_the_feed(
    identity: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away() -> int:
        raise dispatch.BrokerAway("planted")

    monkeypatch.setattr(dispatch, "dispatch_due", away)
    running = Dispatcher()
    running.start()
    try:
        happen(identity)
        until(lambda: None not in places().values(), what="a place in the feed")
    finally:
        running.stop()


def test_a_feed_that_fails_keeps_no_mail_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = []

    def broken() -> outbox.Numbered:
        raise OperationalError("planted")

    monkeypatch.setattr(outbox, "number_events", broken)
    monkeypatch.setattr(dispatch, "dispatch_due", lambda: looks.append(1))
    running = Dispatcher()
    running.start()
    try:
        until(lambda: len(looks) >= 3, what="mail that is looked for")
    finally:
        running.stop()


def test_nothing_but_a_look_is_asked_while_nothing_happens(
    identity: Identity, django_assert_num_queries: Callable[[int], object]
) -> None:
    TenantFactory.create()
    with django_assert_num_queries(1):  # type: ignore[attr-defined]
        assert outbox.number_events() == outbox.Numbered()
