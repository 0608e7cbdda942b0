"""The nineteen steps: a refusal for each, and who answers when two are broken."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from core.clock import database_now
from domains.models import Domain
from mailboxes.models import Identity, Message, Tenant, Thread
from outbound import thread_lock
from outbound.policy import STEPS
from quota.models import Counter, Hold
from suppressions.models import Suppression
from suppressions.services import NewSuppression, suppress
from suppressions.statuses import SuppressionReason
from tests.support.answering import received
from tests.support.api import ApiClient, assert_fix_can_be_followed, code_of

pytestmark = pytest.mark.django_db

BIG = {
    "filename": "a.bin",
    "content_type": "a/b",
    "content_base64": "AAAA" * 1_300_000,
}
Body = dict[str, Any]


class Case:
    """A send into a thread, in which steps can be broken."""

    def __init__(self, api: ApiClient, identity: Identity) -> None:
        """Begin with a thread that can be written into."""
        self.api, self.identity = api, identity
        self.asked = received(identity)
        self.body: Body = {
            "to": ["jo@example.net"],
            "subject": "Hello",
            "text": "Hello",
            "thread_id": self.asked.thread.public_id,
        }

    def send(self) -> Any:
        """Send what the case has become."""
        return self.api.send(self.body)


def _body(**changes: Any) -> Callable[[Case], None]:
    return lambda case: case.body.update(changes)


def _no_thread(case: Case) -> None:
    case.body["thread_id"] = "thr_" + "0" * 26


def _suspended(case: Case) -> None:
    Tenant.objects.update(status="suspended")


def _deleting(case: Case) -> None:
    Identity.objects.update(status="deleting")


def _paused(case: Case) -> None:
    Identity.objects.filter(status="active").update(
        status="paused", pause_reason="manual"
    )


def _ownerless(case: Case) -> None:
    Identity.objects.update(owner_name=None)


def _crowded(case: Case) -> None:
    case.body["to"] = [f"r{n}@example.org" for n in range(11)]


def _in_test_mode(case: Case) -> None:
    Tenant.objects.update(mode="test")


def _looping(case: Case) -> None:
    Message.objects.filter(direction="inbound").update(automated={"hop": 9})


def _unverified(case: Case) -> None:
    Domain.objects.update(state="pending")


def _without_transport(case: Case) -> None:
    Domain.objects.update(transport="ses")


def _suppressed(case: Case) -> None:
    suppress(
        [NewSuppression("jo@example.net", SuppressionReason.HARD_BOUNCE)],
        tenant_id=case.identity.tenant_id,
        source_message_id=case.asked.public_id,
        now=database_now(),
    )


def _capped(case: Case) -> None:
    Identity.objects.update(send_policy={"daily_cap": 0})


def _locked(case: Case) -> None:
    until = database_now() + timedelta(seconds=33)
    Thread.objects.update(lock_owner=case.asked.public_id, lock_until=until)


@dataclass(frozen=True)
class Broken:
    """How a step is broken, and what answers."""

    step: int
    do: Callable[[Case], None]
    status: int
    code: str


BROKEN = {
    broken.step: broken
    for broken in (
        Broken(1, _deleting, 404, "identity_not_found"),
        Broken(2, _suspended, 403, "tenant_suspended"),
        Broken(3, _paused, 409, "identity_paused"),
        Broken(4, _ownerless, 409, "identity_owner_required"),
        Broken(5, _no_thread, 404, "thread_not_found"),
        Broken(6, _body(cc=["nobody"]), 400, "address_invalid"),
        Broken(7, _crowded, 400, "too_many_recipients"),
        Broken(8, _in_test_mode, 403, "test_mode_recipient"),
        Broken(9, _body(kind="marketing"), 400, "marketing_requirements_missing"),
        Broken(10, _looping, 409, "loop_detected"),
        Broken(11, _body(headers={"Bcc": "x"}), 400, "header_not_allowed"),
        Broken(12, _body(text=None), 400, "invalid_request"),
        Broken(13, _body(from_address="no@where.example"), 400, "invalid_request"),
        Broken(14, _unverified, 409, "domain_not_ready"),
        Broken(15, _without_transport, 422, "transport_unavailable"),
        Broken(17, _body(attachments=[BIG]), 413, "message_too_large"),
        Broken(18, _capped, 429, "daily_cap_reached"),
        Broken(19, _locked, 409, "thread_busy"),
    )
}


@pytest.fixture
def case(api: ApiClient, identity: Identity, monkeypatch: pytest.MonkeyPatch) -> Case:
    monkeypatch.setattr(thread_lock, "PATIENCE_SECONDS", 0.0)
    return Case(api, identity)


def assert_refused(case: Case, broken: Broken) -> None:
    response = case.send()
    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (broken.status, broken.code), error
    assert_fix_can_be_followed(response)
    assert not Message.objects.filter(direction="outbound").exists()
    assert not Hold.objects.exists()
    assert not Counter.objects.exists()
    if broken.code == "invalid_request":
        assert error["details"]["errors"][0]["path"] == _PATHS[broken.step]


_PATHS = {12: "text", 13: "from_address"}


def test_the_table_breaks_every_step_that_can_refuse() -> None:
    assert set(BROKEN) == {step.number for step in STEPS} - {16}
    assert all(step.check or step.asked_by for step in STEPS)


@pytest.mark.parametrize("step", sorted(BROKEN))
def test_each_step_refuses_alone_and_stores_nothing(case: Case, step: int) -> None:
    BROKEN[step].do(case)

    assert_refused(case, BROKEN[step])


@pytest.mark.parametrize(
    ("earlier", "later"), list(zip(sorted(BROKEN), sorted(BROKEN)[1:], strict=False))
)
def test_of_two_neighbours_the_earlier_answers(
    case: Case, earlier: int, later: int
) -> None:
    BROKEN[later].do(case)
    BROKEN[earlier].do(case)

    assert_refused(case, BROKEN[earlier])


def test_step_16_refuses_nothing_and_sets_aside(case: Case) -> None:
    _suppressed(case)

    response = case.send()

    assert (response.status_code, response.json()["status"]) == (202, "suppressed")


@pytest.mark.parametrize("step", [15, 17])
def test_step_16_gives_way_to_its_neighbours(case: Case, step: int) -> None:
    _suppressed(case)
    BROKEN[step].do(case)

    assert_refused(case, BROKEN[step])
    assert Suppression.objects.exists()


@pytest.mark.parametrize("kind", ["text", "html", "both"])
def test_an_unbroken_case_is_accepted(case: Case, kind: str) -> None:
    if kind != "text":
        case.body["html"] = "<p>Hello</p>"
    if kind == "html":
        del case.body["text"]

    assert case.send().status_code == 202


def test_a_busy_thread_says_when_to_come_back(case: Case) -> None:
    _locked(case)

    response = case.send()

    error = response.json()["error"]
    assert error["retryable"] is True
    assert error["details"]["retry_after"] in (32, 33)
    assert response["Retry-After"] == str(error["details"]["retry_after"])
    assert code_of(response) == "thread_busy"


def test_a_lease_that_is_over_is_no_lock(case: Case) -> None:
    _locked(case)
    Thread.objects.update(lock_until=database_now() - timedelta(seconds=1))

    assert case.send().status_code == 202
