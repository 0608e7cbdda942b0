"""Daily caps through HTTP: counted with the hold, refused together, warned of once."""

from datetime import date, datetime

import pytest

from core import objects
from core.clock import database_now
from delivery.models import OutboundState
from mailboxes.models import Event, Identity, Message, Tenant
from mailboxes.services import pause_identity
from outbound import services
from quota.models import Allowance, Counter, Hold
from tests.support.api import ApiClient, booking, code_of
from tests.support.scripted import ScriptedTransport, work

pytestmark = pytest.mark.django_db


def counts() -> dict[str, int]:
    found = Counter.objects.exclude(metric__startswith="warned:")
    return dict(found.values_list("metric", "value"))


@pytest.mark.parametrize(
    ("policy", "own", "scope"),
    [
        ({"identity_daily_send_cap": 2}, {}, "identity"),
        ({}, {"daily_cap": 2}, "identity"),
        ({"tenant_daily_send_cap": 2}, {}, "tenant"),
    ],
)
def test_the_send_past_a_cap_is_refused_and_keeps_nothing(
    api: ApiClient,
    identity: Identity,
    policy: dict[str, int],
    own: dict[str, int],
    scope: str,
) -> None:
    Tenant.objects.update(policy=policy)
    Identity.objects.update(send_policy=own)
    for n in range(2):
        assert api.send(booking(cc=["lee@example.org"]), key=f"k{n}").status_code == 202

    response = api.send(booking(), key="one too many")

    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (429, "daily_cap_reached")
    assert (error["details"]["cap"], error["retryable"]) == (scope, True)
    resets_at = datetime.fromisoformat(error["details"]["resets_at"])
    assert resets_at > database_now()
    assert 0 < int(response["Retry-After"]) <= 86400
    assert counts() == {"sends": 2, f"sends:{identity.id}": 2}
    assert (Hold.objects.count(), Allowance.objects.get().held) == (2, 4)
    assert Message.objects.count() == 2


@pytest.mark.parametrize("scope", ["identity_daily_send_cap", "tenant_daily_send_cap"])
def test_a_cap_that_is_reached_is_seen_before_a_lock_is_taken_or_a_byte_written(
    api: ApiClient, scope: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Tenant.objects.update(policy={scope: 1})
    assert api.send(booking(), key="within").status_code == 202
    touched: list[object] = []
    monkeypatch.setattr(objects, "put", lambda *given, **_: touched.append(given))
    monkeypatch.setattr(services, "accept", lambda *given, **_: touched.append(given))

    refused = api.send(booking(), key="past")

    assert (refused.status_code, code_of(refused)) == (429, "daily_cap_reached")
    assert touched == []


def test_r06_three_past_the_cap_are_refused_and_nothing_stays_queued(
    api: ApiClient, identity: Identity
) -> None:
    Identity.objects.update(send_policy={"daily_cap": 2})

    answers = [api.send(booking(), key=f"k{n}") for n in range(5)]

    assert [answer.status_code for answer in answers] == [202, 202, 429, 429, 429]
    for refused in answers[2:]:
        assert refused.json()["error"]["details"]["resets_at"]
    for answer in answers[:2]:
        work(answer.json()["id"], ScriptedTransport())
    assert {message.status for message in Message.objects.all()} == {"submitted"}
    assert not OutboundState.objects.exists()


def test_a_replay_costs_no_count(api: ApiClient, identity: Identity) -> None:
    Identity.objects.update(send_policy={"daily_cap": 1})
    api.send(booking())

    assert api.send(booking()).status_code == 202
    assert counts() == {"sends": 1, f"sends:{identity.id}": 1}


def test_reaching_80_and_100_percent_is_told_once_each(api: ApiClient) -> None:
    Identity.objects.update(send_policy={"daily_cap": 5})

    for n in range(6):
        api.send(booking(), key=f"k{n}")

    events = Event.objects.filter(type="quota.warning").order_by("seq")
    assert [event.payload["data"] for event in events] == [
        {"metric": "sends", "used": 4, "limit": 5, "scope": "identity"},
        {"metric": "sends", "used": 5, "limit": 5, "scope": "identity"},
    ]


def test_the_day_is_the_tenants_own_and_stands_on_the_message(api: ApiClient) -> None:
    Tenant.objects.update(timezone="Pacific/Kiritimati")  # 14 hours ahead

    api.send(booking())

    message = Message.objects.get()
    bucket = (
        Counter.objects.filter(metric="sends").values_list("bucket", flat=True).get()
    )
    assert message.cap_day == date.fromisoformat(bucket)
    assert message.cap_day is not None
    assert message.cap_day >= message.received_at.date()


def test_what_the_system_cancels_counts_no_more(
    api: ApiClient, identity: Identity
) -> None:
    sent = api.send(booking()).json()
    pause_identity(identity.id)

    assert work(sent["id"], ScriptedTransport()) is None

    assert Message.objects.get().status == "canceled"
    assert counts() == {"sends": 0, f"sends:{identity.id}": 0}
    assert Allowance.objects.get().held == 0


def test_a_refused_send_leaves_its_key_for_the_day_after(api: ApiClient) -> None:
    Identity.objects.update(send_policy={"daily_cap": 0})
    assert code_of(api.send(booking())) == "daily_cap_reached"

    Identity.objects.update(send_policy={"daily_cap": 1})

    assert api.send(booking()).json()["deduplicated"] is False
