"""POST …/messages/{id}/cancel: a message that waits is not sent any more."""

from typing import Any

import pytest

from core.clock import database_now
from delivery.models import OutboundState
from mailboxes.key_services import create_key
from mailboxes.models import AuditRow, Event, Identity, Message, Thread
from mailboxes.scopes import Scope
from outbound import claims
from outbound.api.schemas import MessageOut
from outbound.transports.base import (
    Accepted,
    OutgoingMessage,
    RetryClass,
    RetryLater,
    UncertainReason,
    Unknown,
)
from quota.models import Allowance, Counter, Hold
from tests.support.answering import received
from tests.support.api import ApiClient, booking, code_of, paths_of
from tests.support.scripted import ScriptedTransport, work

pytestmark = pytest.mark.django_db


@pytest.fixture
def sent(api: ApiClient) -> dict[str, Any]:
    """An accepted send, as it was answered."""
    answer: dict[str, Any] = api.send(booking(cc=["lee@example.org"])).json()
    return answer


def cancel(api: ApiClient, message_id: str, **given: Any) -> Any:
    return api.post(f"{api.path}/{message_id}/cancel", **given)


def counts() -> set[int]:
    by_day = Counter.objects.exclude(metric__startswith="usage:")
    return set(by_day.values_list("value", flat=True))


def test_a_canceled_message_gives_back_all_that_it_held(
    api: ApiClient, identity: Identity, sent: dict[str, Any]
) -> None:
    answer = cancel(api, sent["id"])

    assert answer.status_code == 200
    MessageOut.model_validate(answer.json())
    assert answer.json()["status"] == "canceled"
    assert answer.json()["reason"] is None
    assert {one["status"] for one in answer.json()["deliveries"]} == {"queued"}
    assert not OutboundState.objects.exists()
    assert not Hold.objects.exists()
    assert (Allowance.objects.get().held, Allowance.objects.get().used) == (0, 0)
    assert counts() == {0}
    assert Thread.objects.get().lock_owner is None
    event = Event.objects.get(type="message.canceled")
    assert event.payload["data"] == {"message_id": sent["id"]}
    row = AuditRow.objects.get(action="message.cancel")
    assert (row.target_id, row.tenant_id) == (sent["id"], identity.tenant_id)
    assert row.actor_key_id is not None


def test_a_canceled_message_is_never_called_for(
    api: ApiClient, sent: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    transport = ScriptedTransport()
    cancel(api, sent["id"])

    assert work(sent["id"], transport) is None
    assert transport.calls == []


def test_the_sends_key_still_gives_the_answer_of_the_send(
    api: ApiClient, sent: dict[str, Any]
) -> None:
    cancel(api, sent["id"])

    replay = api.send(booking(cc=["lee@example.org"]))

    assert replay.status_code == 202
    assert replay.json() == {**sent, "deduplicated": True}
    assert Message.objects.count() == 1
    assert not OutboundState.objects.exists()


def test_a_second_cancel_is_refused_and_one_under_its_key_repeated(
    api: ApiClient, sent: dict[str, Any]
) -> None:
    first = cancel(api, sent["id"], key="c1")

    again = cancel(api, sent["id"])
    repeated = cancel(api, sent["id"], key="c1")

    assert (again.status_code, code_of(again)) == (409, "not_cancelable")
    assert again.json()["error"]["details"] == {"status": "canceled"}
    assert repeated.json() == first.json()
    assert repeated.headers["Idempotent-Replayed"] == "true"
    assert Event.objects.filter(type="message.canceled").count() == 1
    assert counts() == {0}


@pytest.mark.parametrize("age", [0, 301])
def test_any_claim_blocks_a_cancel_however_old(
    api: ApiClient, sent: dict[str, Any], age: int
) -> None:
    assert claims.claim(sent["id"]) is not None
    OutboundState.objects.update(claimed_at=database_now().replace(year=2020))
    if not age:
        OutboundState.objects.update(claimed_at=database_now())

    answer = cancel(api, sent["id"])

    assert (answer.status_code, code_of(answer)) == (409, "not_cancelable")
    assert answer.json()["error"]["details"] == {"status": "queued"}
    assert OutboundState.objects.get().claim_token is not None
    assert counts() == {1}
    assert not AuditRow.objects.filter(action="message.cancel").exists()


def test_a_message_in_a_back_off_can_be_canceled(
    api: ApiClient, sent: dict[str, Any]
) -> None:
    transport = ScriptedTransport([RetryLater(RetryClass.RELAY, "451")])
    work(sent["id"], transport)

    assert cancel(api, sent["id"]).json()["status"] == "canceled"

    assert work(sent["id"], transport) is None
    assert len(transport.calls) == 1
    assert Allowance.objects.get().held == 0
    assert counts() == {0}


def partly(message: OutgoingMessage) -> Accepted:
    return Accepted("smtp:h:1", "1@mail.example", deferred=("lee@example.org",))


def test_a_partly_sent_message_cannot_be_canceled(
    api: ApiClient, sent: dict[str, Any]
) -> None:
    work(sent["id"], ScriptedTransport([partly]))
    assert Message.objects.get().status == "queued"

    answer = cancel(api, sent["id"])

    assert (answer.status_code, code_of(answer)) == (409, "not_cancelable")
    assert OutboundState.objects.exists()
    assert (Allowance.objects.get().held, Allowance.objects.get().used) == (1, 1)


@pytest.mark.parametrize(
    ("transport", "status"),
    [
        (ScriptedTransport(), "submitted"),
        (ScriptedTransport([Unknown(UncertainReason.TIMEOUT, "late")]), "uncertain"),
    ],
    ids=["submitted", "uncertain"],
)
def test_what_is_past_the_queue_cannot_be_canceled(
    api: ApiClient, sent: dict[str, Any], transport: ScriptedTransport, status: str
) -> None:
    work(sent["id"], transport)

    answer = cancel(api, sent["id"])

    assert (answer.status_code, code_of(answer)) == (409, "not_cancelable")
    assert answer.json()["error"]["details"] == {"status": status}
    assert Message.objects.get().status == status
    assert counts() == {1}


def test_received_mail_cannot_be_canceled(api: ApiClient, identity: Identity) -> None:
    answer = cancel(api, received(identity).public_id)

    assert (answer.status_code, code_of(answer)) == (409, "not_cancelable")


def test_a_cancel_takes_no_fields(api: ApiClient, sent: dict[str, Any]) -> None:
    answer = cancel(api, sent["id"], body={"why": "x"})

    assert paths_of(answer) == ["why"]
    assert Message.objects.get().status == "queued"


def test_a_cancel_needs_the_scope_to_send(
    api: ApiClient, identity: Identity, sent: dict[str, Any]
) -> None:
    key = create_key(
        name="reader", tenant=identity.tenant, permissions=[Scope.MESSAGES_READ]
    )

    answer = cancel(ApiClient(key.secret, identity.id), sent["id"])

    assert (answer.status_code, code_of(answer)) == (403, "permission_denied")
    assert answer.json()["error"]["details"]["required"] == ["messages:send"]
