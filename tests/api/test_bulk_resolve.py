"""POST /v1/tenants/{id}/messages/resolve: one answer to many uncertain sends."""

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection, connections, transaction
from django.test.utils import CaptureQueriesContext

from core.clock import database_now
from delivery.bulk import MOST
from delivery.models import Delivery
from delivery.services import apply_event, resolve
from delivery.statuses import DeliveryKind
from mailboxes.key_services import create_key
from mailboxes.models import AuditRow, Event, IdempotencyRecord, Identity, Message
from mailboxes.services import lock_mailbox
from quota.models import Allowance
from tests.api.conftest import client_of
from tests.factories import AddressFactory
from tests.services.conftest import assert_units_add_up
from tests.support.answering import received
from tests.support.api import ApiClient, code_of, paths_of
from tests.support.doubts import doubts, stored, told

pytestmark = pytest.mark.django_db(transaction=True)

HOUR = timedelta(hours=1)


def path_of(identity: Identity) -> str:
    return f"/v1/tenants/{identity.tenant_id}/messages/resolve"


def ids(messages: list[Message]) -> list[str]:
    return [message.public_id for message in messages]


def around(now: datetime, **more: Any) -> dict[str, Any]:
    """Return the body that asks for the sends of the hours around an instant."""
    given = {"since": (now - HOUR).isoformat(), "until": (now + HOUR).isoformat()}
    return {"outcome": "not_sent", **given, **more}


def resolved(response: Any) -> list[str]:
    assert response.status_code == 200, response.content
    found = response.json()["results"]
    return [one["message_id"] for one in found if one["resolved"]]


@pytest.mark.parametrize(
    ("number", "outcome", "status", "event", "charged"),
    [
        (100, "sent", "submitted", "message.sent", 100),
        (3, "not_sent", "failed", "message.failed", 0),
    ],
)
def test_a_hundred_uncertain_sends_are_settled_by_one_call(
    api: ApiClient,
    identity: Identity,
    number: int,
    outcome: str,
    status: str,
    event: str,
    charged: int,
) -> None:
    """R05: what an outage leaves behind."""
    messages = doubts(identity, number)

    answer = api.post(
        path_of(identity), {"outcome": outcome, "message_ids": ids(messages)}
    )

    assert resolved(answer) == ids(messages)
    assert answer.json()["has_more"] is False
    assert {one["message_status"] for one in answer.json()["results"]} == {status}
    assert set(Message.objects.values_list("status", "evidence")) == {
        (status, "person")
    }
    assert Event.objects.filter(type=event).count() == number
    audited = AuditRow.objects.filter(action="message.resolve")
    assert set(audited.values_list("target_id", flat=True)) == set(ids(messages))
    assert audited.count() == number
    key_id = api.get("/v1/me").json()["id"]
    assert set(audited.values_list("actor_key_id", "details__outcome")) == {
        (key_id, outcome)
    }
    assert set(audited.values_list("request_id", flat=True)) == {answer["Request-Id"]}
    assert Allowance.objects.get(tenant=identity.tenant_id).used == charged
    assert_units_add_up(messages[0])


def test_what_an_event_has_settled_is_refused_and_the_rest_goes_on(
    api: ApiClient, identity: Identity
) -> None:
    first, early, last = doubts(identity, 3)
    stranger = doubts(AddressFactory.create().identity, 1)[0]
    mail = received(identity)
    apply_event(*stored(told(early, DeliveryKind.DELIVERED)))
    asked = [first, early, stranger, mail, last, first]

    answer = api.post(
        path_of(identity), {"outcome": "not_sent", "message_ids": ids(asked)}
    )

    told_of = answer.json()["results"]
    assert [
        (one["message_id"], one["message_status"], (one["error"] or {}).get("code"))
        for one in told_of
    ] == [
        (first.public_id, "failed", None),
        (early.public_id, "delivered", "not_uncertain"),
        (stranger.public_id, None, "message_not_found"),
        (mail.public_id, "received", "not_uncertain"),
        (last.public_id, "failed", None),
    ]
    assert told_of[1]["error"]["fix"].endswith(".")
    stranger.refresh_from_db()
    assert stranger.status == "uncertain"


def test_the_sends_of_a_time_are_settled_and_no_others(
    api: ApiClient, identity: Identity
) -> None:
    now = database_now()
    before, within, after = doubts(identity, 3)
    for message, at in ((before, -2 * HOUR), (after, HOUR)):
        Delivery.objects.filter(message=message).update(updated_at=now + at)
    doubts(AddressFactory.create().identity, 1)  # another tenant's

    answer = api.post(path_of(identity), around(now))

    assert resolved(answer) == [within.public_id]
    assert Message.objects.filter(status="uncertain").count() == 3


def test_the_sends_of_a_time_are_those_of_one_identity_or_one_domain(
    api: ApiClient, identity: Identity
) -> None:
    now = database_now()
    colleague = AddressFactory.create(identity__tenant=identity.tenant).identity
    own, other = doubts(identity, 1), doubts(colleague, 1)
    domain = colleague.addresses.get().domain_id
    path = path_of(identity)

    of_identity = api.post(path, around(now, identity_id=identity.id))
    of_domain = api.post(path, around(now, domain_id=domain))

    assert resolved(of_identity) == ids(own)
    assert resolved(of_domain) == ids(other)


def test_more_than_one_call_settles_say_so(
    api: ApiClient, identity: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("delivery.bulk.MOST", 3)
    now = database_now()
    doubts(identity, 4)

    first, second = (api.post(path_of(identity), around(now)) for _ in range(2))

    assert (len(resolved(first)), first.json()["has_more"]) == (3, True)
    assert (len(resolved(second)), second.json()["has_more"]) == (1, False)


def test_a_repeat_under_its_key_gets_the_first_answer(
    api: ApiClient, identity: Identity
) -> None:
    messages = doubts(identity, 2)
    body = {"outcome": "sent", "message_ids": ids(messages)}
    first = api.post(path_of(identity), body, key="k")

    again = api.post(path_of(identity), body, key="k")
    other = api.post(path_of(identity), {**body, "outcome": "not_sent"}, key="k")

    assert resolved(first) == ids(messages)
    assert again.headers["Idempotent-Replayed"] == "true"
    assert again.json() == first.json()
    assert code_of(other) == "idempotency_conflict"
    assert AuditRow.objects.filter(action="message.resolve").count() == 2


def test_a_call_under_the_key_of_one_in_progress_is_refused(
    api: ApiClient, identity: Identity
) -> None:
    # Given a call that waits for a mailbox that somebody holds
    messages = doubts(identity, 1)
    body = {"outcome": "sent", "message_ids": ids(messages)}

    def call() -> Any:
        try:
            return ApiClient(api.secret, "").post(path_of(identity), body, key="k")
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool, transaction.atomic():
        lock_mailbox(identity.id)
        first = pool.submit(call)
        waiting = (
            "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
            " AND query LIKE '%mailbox_state%' AND datname = current_database()"
        )
        with connection.cursor() as cursor:
            while not first.done():
                cursor.execute("SELECT pg_stat_clear_snapshot()")
                cursor.execute(waiting)
                if cursor.fetchone():
                    break

        # When the same call comes once more
        with ThreadPoolExecutor(1) as another:
            second = another.submit(call).result()

    # Then it is told to wait, and the first does its work
    assert code_of(second) == "request_in_progress"
    assert resolved(first.result()) == ids(messages)


def test_what_was_settled_before_a_crash_stays_and_a_repeat_says_so(
    api: ApiClient, identity: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = doubts(identity, 2)
    body = {"outcome": "not_sent", "message_ids": ids(messages)}

    def breaks(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError("after the work, before the answer")

    with monkeypatch.context() as patched:
        patched.setattr("mailboxes.api.once.remember", breaks)
        with pytest.raises(RuntimeError):
            api.post(path_of(identity), body, key="k")

    again = api.post(path_of(identity), body, key="k")

    assert resolved(again) == []
    assert {one["error"]["code"] for one in again.json()["results"]} == {
        "not_uncertain"
    }
    assert {one["message_status"] for one in again.json()["results"]} == {"failed"}
    assert AuditRow.objects.filter(action="message.resolve").count() == 2
    assert IdempotencyRecord.objects.count() == 1


def test_each_send_costs_the_same_few_statements(
    api: ApiClient, identity: Identity
) -> None:
    counts = []
    for number in (1, 2, 12):
        body = {"outcome": "sent", "message_ids": ids(doubts(identity, number))}
        api.get("/v1/me")
        with CaptureQueriesContext(connection) as captured:
            assert len(resolved(api.post(path_of(identity), body))) == number
        counts.append(len(captured))

    each = counts[1] - counts[0]
    assert counts[2] == counts[0] + 11 * each
    assert each <= 24


@pytest.mark.parametrize(
    ("body", "paths"),
    [
        ({}, ["outcome", "since", "until"]),
        ({"outcome": "maybe", "message_ids": ["msg_1"]}, ["outcome", "message_ids[0]"]),
        ({"outcome": "sent", "message_ids": []}, ["message_ids"]),
        ({"outcome": "sent", "message_ids": None}, ["message_ids"]),
        ({"outcome": "sent", "since": "2026-11-02T09:00:00Z"}, ["until"]),
        (
            {
                "outcome": "sent",
                "since": "2026-11-02T09:00:00Z",
                "until": "2026-11-02T09:00:00Z",
            },
            ["until"],
        ),
        ({"outcome": "sent", "since": "yesterday", "until": 1}, ["since", "until"]),
    ],
)
def test_a_call_of_another_form_is_refused_with_its_path(
    api: ApiClient, identity: Identity, body: dict[str, Any], paths: list[str]
) -> None:
    doubts(identity, 1)

    answer = api.post(path_of(identity), body)

    assert (code_of(answer), paths_of(answer)) == ("invalid_request", paths)
    assert Message.objects.get().status == "uncertain"


def test_named_sends_and_a_time_do_not_go_together_and_501_are_too_many(
    api: ApiClient, identity: Identity
) -> None:
    message_ids = ids(doubts(identity, 1))
    path = path_of(identity)

    both = api.post(path, {**around(database_now()), "message_ids": message_ids})
    many = api.post(path, {"outcome": "sent", "message_ids": message_ids * (MOST + 1)})

    assert paths_of(both) == ["since", "until"]
    assert paths_of(many) == ["message_ids"]
    assert Message.objects.get().status == "uncertain"


def test_what_is_out_of_reach_is_not_there(api: ApiClient, identity: Identity) -> None:
    stranger = AddressFactory.create()
    now = database_now()
    own = path_of(identity)
    of_stranger = around(now, identity_id=stranger.identity_id)
    of_domain = around(now, domain_id=stranger.domain_id)

    assert code_of(api.post(path_of(stranger.identity), {})) == "tenant_not_found"
    assert code_of(api.post(own, of_stranger)) == "identity_not_found"
    assert code_of(api.post(own, of_domain)) == "domain_not_found"


def test_a_key_of_an_identity_is_below_the_route(identity: Identity) -> None:
    key = create_key(name="i", identity=identity).secret
    message = doubts(identity, 1)[0]

    answer = ApiClient(key, identity.id).post(
        path_of(identity), {"outcome": "sent", "message_ids": [message.public_id]}
    )

    assert (answer.status_code, code_of(answer)) == (403, "scope_denied")


def test_a_send_whose_mailbox_is_held_too_long_keeps_no_other(
    identity: Identity,
) -> None:
    # Given two mailboxes, and somebody who holds one of them for longer than is waited
    colleague = AddressFactory.create(identity__tenant=identity.tenant).identity
    held, free = doubts(identity, 1)[0], doubts(colleague, 1)[0]
    body = {"outcome": "sent", "message_ids": ids([held, free])}

    def call() -> Any:
        try:
            with connection.cursor() as cursor:
                cursor.execute("SET lock_timeout = '200ms'")
            return client_of(identity).post(path_of(identity), body)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool, transaction.atomic():
        lock_mailbox(identity.id)
        answer = pool.submit(call).result()

    # Then that one is to be asked again, and the other is settled
    assert resolved(answer) == [free.public_id]
    error = answer.json()["results"][0]["error"]
    assert (error["code"], error["retryable"]) == ("unavailable", True)
    assert resolve(held.public_id, outcome="sent").status == "submitted"
