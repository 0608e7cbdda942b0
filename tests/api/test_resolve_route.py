"""POST …/messages/{id}/resolve: a caller settles an uncertain send, once."""

import json
from typing import Any

import pytest

from mailboxes.models import AuditRow, Event, IdempotencyRecord, Identity, Message
from outbound.transports.base import UncertainReason, Unknown
from tests.factories import QueuedMessageFactory, ThreadFactory
from tests.support.answering import received
from tests.support.api import ApiClient, booking, code_of, paths_of
from tests.support.scripted import ScriptedTransport, work

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def uncertain(identity: Identity) -> Message:
    """A send whose end nobody knows."""
    thread = ThreadFactory.create(identity=identity)
    message: Message = QueuedMessageFactory.create(
        thread=thread, recipients=("a@example.net", "b@example.net")
    )
    silence = ScriptedTransport([Unknown(UncertainReason.TIMEOUT, "silence")])
    work(message.public_id, silence)
    return message


def path_of(api: ApiClient, message: Message) -> str:
    return f"{api.path}/{message.public_id}/resolve"


@pytest.mark.parametrize(
    ("outcome", "status", "reason", "told"),
    [
        ("sent", "submitted", "transport_timeout", "message.sent"),
        ("not_sent", "failed", "resolved_not_sent", "message.failed"),
    ],
)
def test_a_caller_settles_an_uncertain_send(
    api: ApiClient,
    uncertain: Message,
    outcome: str,
    status: str,
    reason: str,
    told: str,
) -> None:
    response = api.post(path_of(api, uncertain), {"outcome": outcome})

    assert response.status_code == 200
    settled = response.json()
    assert settled["status"] == status
    assert {d["status"] for d in settled["deliveries"]} == {status}
    assert settled == api.get(f"{api.path}/{uncertain.public_id}").json()
    events = Event.objects.order_by("seq").values_list("type", flat=True)
    assert list(events) == ["message.uncertain", told]
    row = AuditRow.objects.get(action="message.resolve")
    assert row.actor_key_id == api.get("/v1/me").json()["id"]
    assert row.target_id == uncertain.public_id


def test_what_is_settled_is_not_settled_again(
    api: ApiClient, uncertain: Message
) -> None:
    api.post(path_of(api, uncertain), {"outcome": "sent"})

    again = api.post(path_of(api, uncertain), {"outcome": "not_sent"})

    assert (again.status_code, code_of(again)) == (409, "not_uncertain")
    assert AuditRow.objects.filter(action="message.resolve").count() == 1
    assert Message.objects.get().status == "submitted"


def test_a_repeat_under_its_key_gets_the_first_answer(
    api: ApiClient, uncertain: Message
) -> None:
    path = path_of(api, uncertain)
    first = api.post(path, {"outcome": "sent"}, key="k")
    Message.objects.update(status="delivered")  # it moves on meanwhile

    again = api.post(path, {"outcome": "sent"}, key="k")
    other = api.post(path, {"outcome": "not_sent"}, key="k")

    assert again.headers["Idempotent-Replayed"] == "true"
    assert again.json() == first.json()
    assert code_of(other) == "idempotency_conflict"


def test_the_remembered_answer_holds_nothing_of_the_mail(
    api: ApiClient, uncertain: Message
) -> None:
    api.post(path_of(api, uncertain), {"outcome": "sent"}, key="k")

    kept = json.dumps(IdempotencyRecord.objects.get().response_body)
    assert uncertain.subject
    assert uncertain.subject not in kept
    assert str(uncertain.text) not in kept


def test_a_refused_answer_leaves_nothing_behind(
    api: ApiClient, uncertain: Message, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError("after the work, before the commit")

    monkeypatch.setattr("mailboxes.api.once.remember", breaks)
    with pytest.raises(RuntimeError):
        api.post(path_of(api, uncertain), {"outcome": "sent"}, key="k")

    uncertain.refresh_from_db()
    assert uncertain.status == "uncertain"
    assert not AuditRow.objects.filter(action="message.resolve").exists()


def test_mail_that_is_not_in_doubt_cannot_be_settled(
    api: ApiClient, identity: Identity
) -> None:
    queued = Message.objects.get(public_id=api.send(booking()).json()["id"])

    for message in (queued, received(identity)):
        answer = api.post(path_of(api, message), {"outcome": "sent"})
        assert (answer.status_code, code_of(answer)) == (409, "not_uncertain")


@pytest.mark.parametrize(
    ("body", "paths"),
    [
        ({}, ["outcome"]),
        ({"outcome": "maybe"}, ["outcome"]),
        ({"outcome": "sent", "note": "x"}, ["note"]),
    ],
)
def test_an_answer_of_another_form_is_refused_with_its_path(
    api: ApiClient, uncertain: Message, body: dict[str, Any], paths: list[str]
) -> None:
    response = api.post(path_of(api, uncertain), body)

    assert (code_of(response), paths_of(response)) == ("invalid_request", paths)
    assert Message.objects.get().status == "uncertain"
