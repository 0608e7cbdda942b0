"""Events are kept as long as their tenant's policy says, or until they are told."""

from collections.abc import Callable

import pytest
from pytest_django import Settings

from core.ids import new_id
from mailboxes.models import Event, Identity, Tenant
from tests.factories import AddressFactory
from tests.support.outbox import happen, happen_to_tenant, listening
from webhooks import outbox, retention
from webhooks.models import WebhookAttempt, WebhookDispatch, WebhookEndpoint
from webhooks.statuses import AttemptStatus, DispatchState

pytestmark = pytest.mark.django_db
DAY = 86_400.0


def kept() -> set[str]:
    return set(Event.objects.values_list("id", flat=True))


def keep(tenant: Tenant, days: int) -> None:
    """Let a tenant's own policy say for how long."""
    Tenant.objects.filter(id=tenant.id).update(
        policy={"retention": {"events_days": days}}
    )


def attempt(endpoint: WebhookEndpoint, event_id: str) -> WebhookAttempt:
    return WebhookAttempt.objects.create(
        id=new_id("dlv"),
        endpoint=endpoint,
        event_id=event_id,
        event_type="message.canceled",
        attempt=1,
        status=AttemptStatus.SUCCEEDED,
    )


def test_events_end_after_thirty_days_and_newer_ones_stay(
    identity: Identity, later: Callable[[float], None]
) -> None:
    old = {happen(identity), happen_to_tenant(identity.tenant)}
    later(1)
    new = {happen(identity), happen_to_tenant(identity.tenant)}
    outbox.number_all()

    later(30 * DAY - 1.5)
    assert retention.purge_events() == 0
    later(1)
    assert retention.purge_events() == len(old) == 2

    assert kept() == new


def test_each_tenant_keeps_them_as_long_as_its_policy_says(
    identity: Identity, later: Callable[[float], None], settings: Settings
) -> None:
    # Given a deployment that keeps a week, a tenant with a day, another with a year
    settings.PM_DEFAULT_POLICY = {"retention": {"events_days": 7}}
    others = [AddressFactory.create().identity for _ in range(2)]
    keep(identity.tenant, 1)
    keep(others[0].tenant, 365)
    _, long, plain = (happen(one) for one in (identity, *others))
    outbox.number_all()

    later(DAY + 1)
    retention.purge_events()
    assert kept() == {long, plain}

    later(6 * DAY)
    retention.purge_events()
    assert kept() == {long}

    later(358 * DAY)
    retention.purge_events()
    assert kept() == set()


def test_what_has_no_place_yet_is_never_lost(
    identity: Identity, later: Callable[[float], None]
) -> None:
    event_id = happen(identity)
    later(400 * DAY)

    assert retention.purge_events() == 0
    outbox.number_all()

    assert kept() == {event_id}


def test_dispatches_and_attempts_end_with_their_event(
    identity: Identity, later: Callable[[float], None]
) -> None:
    endpoint = listening(identity.tenant)
    old = happen(identity)
    outbox.number_all()
    WebhookDispatch.objects.update(state=DispatchState.SUCCEEDED, due_at=None)
    attempt(endpoint, old)
    later(31 * DAY)
    new = happen(identity)
    outbox.number_all()
    of_new = attempt(endpoint, new)

    retention.purge_events()

    assert kept() == {new}
    assert [row.event_id for row in WebhookDispatch.objects.all()] == [new]
    assert list(WebhookAttempt.objects.all()) == [of_new]


def test_an_event_that_is_still_on_its_way_waits_and_holds_no_other_up(
    identity: Identity, later: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given more events on their way than one statement takes, and one behind them
    monkeypatch.setattr(retention, "BATCH", 2)
    endpoint = listening(identity.tenant, "message.canceled")
    waiting = {happen(identity) for _ in range(3)}
    happen(identity, "quota.warning")
    outbox.number_all()
    later(31 * DAY)

    assert retention.purge_events() == 1
    assert kept() == waiting

    # When the endpoint has had them, they end as well
    WebhookDispatch.objects.filter(endpoint=endpoint).update(
        state=DispatchState.DEAD, due_at=None
    )
    assert retention.purge_events() == 3
    assert not WebhookDispatch.objects.exists()


def test_places_are_never_given_again(
    identity: Identity, later: Callable[[float], None]
) -> None:
    happen(identity)
    outbox.number_all()
    last = Event.objects.get().position
    later(31 * DAY)
    retention.purge_events()
    assert kept() == set()

    happen(identity)
    outbox.number_all()

    assert (Event.objects.get().position or 0) > (last or 0)
