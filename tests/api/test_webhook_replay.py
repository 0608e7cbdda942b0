"""Stored events sent to an endpoint again."""

from datetime import datetime, timedelta
from itertools import product
from typing import Any

import pytest
from pytest_django import Settings

from core import clock
from core.clock import database_now
from core.ids import new_id
from mailboxes.key_services import create_key
from mailboxes.models import AuditRow, Event, Identity, Tenant
from mailboxes.scopes import Scope
from tests.factories import IdentityFactory, WebhookEndpointFactory
from tests.support.api import ApiClient, code_of, paths_of
from tests.support.lived_in import called, told
from tests.support.webhook_rows import rung_and_delivered, trusting
from tests.support.webhook_sink import WebhookSink
from webhooks.matching import Interest, Occurrence, wants
from webhooks.models import WebhookDispatch, WebhookEndpoint

pytestmark = pytest.mark.django_db


@pytest.fixture
def endpoint(identity: Identity) -> WebhookEndpoint:
    """An endpoint that is told of everything."""
    made: WebhookEndpoint = WebhookEndpointFactory.create(tenant=identity.tenant)
    return made


def happened(
    identity: Identity | None, *, age: timedelta = timedelta(hours=1), **fields: Any
) -> Event:
    """Store an event of an identity, with a place in the feed unless one is given."""
    number = Event.objects.count() + 1
    return Event.objects.create(
        **{
            "id": new_id("evt"),
            "tenant": identity and identity.tenant,
            "identity": identity,
            "owner_kind": "mailbox",
            "owner_id": "test",
            "seq": number,
            "position": number,
            "type": "message.sent",
            "payload": {},
            "occurred_at": database_now() - age,
            **fields,
        }
    )


def replay(client: ApiClient, endpoint: WebhookEndpoint, body: Any, **more: Any) -> Any:
    return client.post(f"/v1/webhooks/{endpoint.id}/replay", body, **more)


def by_id(client: ApiClient, endpoint: WebhookEndpoint, *events: Event) -> set[str]:
    """Replay events by their ids; return those that are on their way then."""
    answer = replay(client, endpoint, {"event_ids": [one.id for one in events]})
    assert answer.status_code == 202, answer.content
    return on_their_way(endpoint, answer)


def in_time(client: ApiClient, endpoint: WebhookEndpoint, **body: Any) -> set[str]:
    answer = replay(client, endpoint, body)
    assert answer.status_code == 202, answer.content
    return on_their_way(endpoint, answer)


def on_their_way(endpoint: WebhookEndpoint, answer: Any) -> set[str]:
    due = WebhookDispatch.objects.filter(endpoint=endpoint, state="pending")
    found = set(due.values_list("event_id", flat=True))
    assert answer.json() == {"dispatched": len(found)}
    due.delete()
    return found


def ago(**age: Any) -> str:
    return shown(database_now() - timedelta(**age))


def shown(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")


def test_a_replayed_event_is_due_now_with_its_attempts_counted_on(
    api: ApiClient, endpoint: WebhookEndpoint, identity: Identity
) -> None:
    new, old = happened(identity), happened(identity)
    given_up = WebhookDispatch.objects.create(
        endpoint=endpoint,
        event=old,
        event_type=old.type,
        state="dead",
        step=13,
        attempts=13,
        rung_at=None,
    )

    answer = replay(api, endpoint, {"event_ids": [new.id, old.id]})

    assert (answer.status_code, answer.json()) == (202, {"dispatched": 2})
    rows = {row.event_id: row for row in WebhookDispatch.objects.all()}
    assert rows[old.id].pk == given_up.pk
    for event, attempts in ((new, 0), (old, 13)):
        row = rows[event.id]
        assert (row.state, row.step, row.attempts) == ("pending", 0, attempts)
        assert row.due_at is not None
        assert row.due_at <= database_now()
        assert (row.event_type, row.rung_at) == (event.type, None)
    audited = AuditRow.objects.get(action="webhook.replay")
    assert (audited.target_id, audited.details) == (endpoint.id, {"dispatched": 2})


def test_a_replayed_event_comes_with_its_id_and_the_next_number(
    api: ApiClient, identity: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R23, for replays."""
    event_id = told(identity)
    with WebhookSink() as sink, trusting(monkeypatch):
        endpoint = WebhookEndpointFactory.create(
            tenant=identity.tenant, url=sink.url("/ok")
        )
        for n in (1, 2):
            replay(api, endpoint, {"event_ids": [event_id]})
            rung_and_delivered(WebhookDispatch.objects.get(endpoint=endpoint))

            assert [one.id for one in sink.received] == [event_id] * n
    path = f"/v1/webhooks/{endpoint.id}/deliveries"
    shown = [(a["attempt"], a["status"]) for a in api.get(path).json()["data"]]
    assert shown == [(2, "succeeded"), (1, "succeeded")]


def test_what_waits_for_its_next_attempt_is_due_at_once(
    api: ApiClient, endpoint: WebhookEndpoint, identity: Identity
) -> None:
    event, later = happened(identity), database_now() + timedelta(hours=19)
    WebhookDispatch.objects.create(
        endpoint=endpoint, event=event, event_type=event.type, step=12, due_at=later
    )

    replay(api, endpoint, {"event_ids": [event.id]})

    row = WebhookDispatch.objects.get()
    assert row.step == 0
    assert row.due_at is not None
    assert row.due_at <= database_now()


def test_what_came_before_the_endpoint_can_be_replayed_to_it(
    api: ApiClient, endpoint: WebhookEndpoint, identity: Identity
) -> None:
    event = happened(identity, age=timedelta(days=20))

    assert by_id(api, endpoint, event) == {event.id}


def test_an_id_of_what_it_is_not_told_of_is_passed_over(
    api: ApiClient, endpoint: WebhookEndpoint, identity: Identity
) -> None:
    good = happened(identity)
    others = [
        happened(IdentityFactory.create()),
        happened(None),
        happened(identity, type="webhook.test"),
        happened(identity, type="webhook.disabled"),
        happened(identity, position=None),  # it comes by itself in a moment
        happened(identity, age=timedelta(days=30, minutes=1)),
        Event(id=new_id("evt")),
    ]

    assert by_id(api, endpoint, good, *others) == {good.id}


EVENT_TYPES = ("message.sent", "identity.paused", "webhook.test", "webhook.disabled")


def test_the_statement_and_the_page_on_matching_say_the_same(
    platform_api: ApiClient, identity: Identity
) -> None:
    # Given every kind of event, and every kind of endpoint
    sibling = IdentityFactory.create(tenant=identity.tenant)
    owners = (identity, sibling, IdentityFactory.create(), None)
    events = [happened(o, type=kind) for o, kind in product(owners, EVENT_TYPES)]
    interests = product(
        (identity.tenant, None),
        (["*"], ["message.sent"], ["webhook.test", "webhook.disabled"]),
        (None, [identity.id], [identity.id, owners[2].id]),
    )

    # When each is asked for all of them, then it gets what the page says
    for tenant, asked, ids in interests:
        endpoint = WebhookEndpointFactory.create(
            tenant=tenant, events=asked, identity_ids=ids
        )
        interest = Interest(endpoint.tenant_id, asked, ids, True, endpoint.created_at)
        wanted = {
            one.id
            for one in events
            if wants(
                interest,
                Occurrence(one.type, one.tenant_id, one.identity_id, one.occurred_at),
            )
        }
        assert by_id(platform_api, endpoint, *events) == wanted


def test_a_range_holds_its_first_instant_and_not_its_last(
    api: ApiClient, endpoint: WebhookEndpoint, identity: Identity
) -> None:
    first, second, third = (
        happened(identity, age=timedelta(hours=h)) for h in (3, 2, 1)
    )

    since, until = shown(first.occurred_at), shown(third.occurred_at)

    assert in_time(api, endpoint, since=since, until=until) == {first.id, second.id}
    assert in_time(api, endpoint, since=until) == {third.id}
    assert in_time(api, endpoint, since=ago(days=300)) == {
        first.id,
        second.id,
        third.id,
    }
    assert in_time(api, endpoint, since=ago(minutes=1)) == set()


def attempted(endpoint: WebhookEndpoint, identity: Identity, *ends: str) -> Event:
    event = happened(identity)
    for n, status in enumerate(ends):
        attempt = called(endpoint)
        type(attempt).objects.filter(id=attempt.id).update(
            event_id=event.id,
            status=status,
            created_at=database_now() - timedelta(minutes=10 - n),
        )
    return event


@pytest.mark.parametrize(
    ("ends", "statuses"),
    [
        ([], set()),
        (["failed"], {"failed"}),
        (["failed", "dead"], {"dead"}),
        (["failed", "succeeded"], {"succeeded"}),
        (["dead", "succeeded"], {"succeeded"}),
        (["dead", "failed"], {"dead", "failed"}),
        (["succeeded", "failed"], {"succeeded", "failed"}),
        (["succeeded", "dead"], {"succeeded"}),
    ],
)
def test_a_range_is_narrowed_by_what_became_of_its_events(
    api: ApiClient,
    endpoint: WebhookEndpoint,
    identity: Identity,
    ends: list[str],
    statuses: set[str],
) -> None:
    other = WebhookEndpointFactory.create(tenant=identity.tenant)
    event = attempted(endpoint, identity, *ends)
    elsewhere = attempted(other, identity, "failed", "succeeded")

    for status in ("dead", "failed", "succeeded"):
        found = in_time(api, endpoint, since=ago(days=1), status=status)
        assert found == ({event.id} if status in statuses else set())
    every = in_time(api, endpoint, since=ago(days=1))
    assert every == {event.id, elsewhere.id}


def test_a_thousand_are_the_most_of_a_range(
    api: ApiClient, endpoint: WebhookEndpoint, identity: Identity
) -> None:
    last = happened(identity, position=5000)
    Event.objects.bulk_create(
        Event(
            id=new_id("evt"),
            tenant=identity.tenant,
            identity=identity,
            owner_kind="mailbox",
            owner_id="many",
            seq=n,
            position=n + 1,
            type="message.sent",
            payload={},
            occurred_at=last.occurred_at,
        )
        for n in range(1000)
    )

    refused = replay(api, endpoint, {"since": ago(days=1)})

    assert (refused.status_code, paths_of(refused)) == (400, ["since"])
    assert not WebhookDispatch.objects.exists()
    assert not AuditRow.objects.filter(action="webhook.replay").exists()
    last.delete()
    assert len(in_time(api, endpoint, since=ago(days=1))) == 1000


def test_the_window_is_the_tenants_where_that_is_shorter(
    api: ApiClient,
    platform_api: ApiClient,
    endpoint: WebhookEndpoint,
    identity: Identity,
) -> None:
    young, old = (happened(identity, age=timedelta(days=d)) for d in (2, 4))
    foreign = happened(IdentityFactory.create(), age=timedelta(days=4))
    Tenant.objects.filter(id=identity.tenant_id).update(
        policy={"retention": {"events_days": 3}}
    )
    platforms = WebhookEndpointFactory.create(tenant=None)

    assert by_id(api, endpoint, young, old) == {young.id}
    assert in_time(api, endpoint, since=ago(days=30)) == {young.id}
    found = by_id(platform_api, platforms, young, old, foreign)
    assert found == {young.id, foreign.id}


def test_the_window_is_never_longer_than_thirty_days(
    api: ApiClient, endpoint: WebhookEndpoint, identity: Identity, settings: Settings
) -> None:
    settings.PM_DEFAULT_POLICY = {"retention": {"events_days": 365}}
    event = happened(identity, age=timedelta(days=29))
    assert by_id(api, endpoint, event) == {event.id}

    clock.offset = timedelta(days=2)

    assert by_id(api, endpoint, event) == set()
    settings.PM_DEFAULT_POLICY = {"retention": {"events_days": 7}}
    clock.offset = timedelta(0)
    assert by_id(api, endpoint, event) == set()


def test_an_endpoint_that_is_off_is_replayed_nothing(
    api: ApiClient, endpoint: WebhookEndpoint, identity: Identity
) -> None:
    event = happened(identity)
    WebhookEndpoint.objects.update(disabled_reason="gone", disabled_at=database_now())

    refused = replay(api, endpoint, {"event_ids": [event.id]})

    assert (refused.status_code, code_of(refused)) == (400, "invalid_request")
    assert refused.json()["error"]["details"]["reason"] == "endpoint_disabled"
    assert not WebhookDispatch.objects.exists()


def test_mail_is_replayed_by_those_who_may_read_it(
    endpoint: WebhookEndpoint, identity: Identity
) -> None:
    """J29."""
    event = happened(identity, type="identity.paused")
    key = create_key(
        name="n", tenant=identity.tenant, permissions=[Scope.WEBHOOKS_MANAGE]
    )
    narrow = ApiClient(key.secret, "")

    refused = replay(narrow, endpoint, {"event_ids": [event.id]})

    assert (refused.status_code, code_of(refused)) == (403, "permission_denied")
    WebhookEndpoint.objects.update(events=["identity.paused"])
    assert by_id(narrow, endpoint, event) == {event.id}


@pytest.mark.parametrize(
    ("body", "paths"),
    [
        ({}, ["since"]),
        ({"event_ids": []}, ["event_ids"]),
        ({"event_ids": [new_id("evt")] * 101}, ["event_ids"]),
        ({"event_ids": ["evt_1"]}, ["event_ids[0]"]),
        ({"event_ids": [new_id("evt")], "since": "2026-11-02T09:00:00Z"}, ["since"]),
        ({"since": "yesterday"}, ["since"]),
        (
            {"since": "2026-11-02T09:00:00Z", "until": "2026-11-02T09:00:00Z"},
            ["until"],
        ),
        ({"since": "2026-11-02T09:00:00Z", "status": "pending"}, ["status"]),
        ({"since": "2026-11-02T09:00:00Z", "status": None}, ["status"]),
        ({"since": "2026-11-02T09:00:00Z", "limit": 5}, ["limit"]),
    ],
)
def test_a_malformed_replay_is_refused_with_its_path(
    api: ApiClient, endpoint: WebhookEndpoint, body: Any, paths: list[str]
) -> None:
    answer = replay(api, endpoint, body)

    assert (answer.status_code, paths_of(answer)) == (400, paths)


def test_a_repeat_under_its_key_sends_nothing_again(
    api: ApiClient, endpoint: WebhookEndpoint, identity: Identity
) -> None:
    body = {"event_ids": [happened(identity).id]}
    replay(api, endpoint, body, key="k1")
    WebhookDispatch.objects.update(state="succeeded", due_at=None)

    again = replay(api, endpoint, body, key="k1")

    assert (again.status_code, again.json()) == (202, {"dispatched": 1})
    assert WebhookDispatch.objects.get().state == "succeeded"
