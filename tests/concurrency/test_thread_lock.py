"""Two sends on one thread: one goes, the other waits, sees it, and follows."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.db import connection, transaction
from pytest_django import Settings

from core import clock, objects, points
from core.clock import database_now
from domains.models import Domain
from mailboxes.key_services import create_key
from mailboxes.keyring_services import forget_keys, rotate_key, verifying_key
from mailboxes.models import Address, Identity, Message, Thread
from mailboxes.statuses import KeyPurpose
from mailboxes.thread_tokens import (
    Invalid,
    Valid,
    Verdict,
    split_subaddress,
    verify_token,
)
from outbound import thread_lock
from outbound.transports.base import Accepted, Rejected, RejectReason
from tests.factories import AddressFactory, DomainFactory
from tests.services.conftest import assert_units_add_up
from tests.support.answering import received
from tests.support.api import ApiClient, booking, code_of
from tests.support.mail_reader import header_block
from tests.support.racers import Racers
from tests.support.scripted import ScriptedTransport, work
from tests.support.waiting import until

pytestmark = pytest.mark.django_db(transaction=True)

REFUSED = Rejected(RejectReason.PROVIDER_VALIDATION, "550", "no")


@pytest.fixture(autouse=True)
def _no_limits(settings: Settings) -> None:
    settings.PM_RATE_SENDS = settings.PM_RATE_PER_KEY = settings.PM_RATE_PER_TENANT = 0


@pytest.fixture(autouse=True)
def _new_ring() -> None:
    """Forget the keys of an earlier test: their rows are gone."""
    forget_keys()


@pytest.fixture
def identity(transactional_db: None) -> Identity:
    return AddressFactory.create().identity


@pytest.fixture
def api(identity: Identity) -> ApiClient:
    return ApiClient(create_key(name="t", tenant=identity.tenant).secret, identity.id)


@pytest.fixture
def asked(identity: Identity) -> Message:
    return received(identity)


@contextmanager
def waiting(action: Callable[[], Any]) -> Iterator[list[Any]]:
    """Run a send that has to wait; inside, it waits, and ends before this does."""
    waits, answers = threading.Event(), []
    points.planted["submit.thread_wait"] = waits.set

    def run() -> None:
        answers.append(action())
        connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert waits.wait(10), answers
        yield answers
    finally:
        thread.join(timeout=30)
    assert answers


def depart(message_id: str) -> None:
    """Let a message leave, as a worker does: the thread is let go."""
    assert work(message_id, ScriptedTransport()) is not None


def accepted_id(response: Any) -> str:
    assert response.status_code == 202, response.content
    return str(response.json()["id"])


def token_of(address: str, identity: Identity) -> Verdict:
    """Judge the token of an address as mail that comes in is judged."""
    now = database_now()
    return verify_token(
        split_subaddress(address)[1] or "",
        identity_id=identity.id,
        key_of=lambda kid: verifying_key(KeyPurpose.THREAD, kid, now=now),
    )


def fields(message_id: str) -> dict[str, str]:
    raw_key = Message.objects.get(public_id=message_id).raw_key
    return dict(header_block(objects.get(raw_key or "")))


def test_two_replies_at_once_leave_one_after_the_other(
    api: ApiClient, asked: Message, racers: Racers
) -> None:
    def answer(key: str) -> Any:
        return api.answer("reply", asked.public_id, key=key)

    def let_go() -> None:
        until(lambda: Message.objects.filter(status="queued").exists())
        depart(Message.objects.get(status="queued").public_id)

    for n in range(5):
        one, other, _ = racers.at_once(
            [partial(answer, f"a{n}"), partial(answer, f"b{n}"), let_go]
        )
        ids = {accepted_id(one), accepted_id(other)}
        last = Message.objects.get(status="queued").public_id
        assert last in ids
        assert Thread.objects.get().lock_owner == last
        depart(last)
        assert Thread.objects.get().lock_owner is None
    assert Thread.objects.get().message_count == 10
    assert_units_add_up(Message.objects.filter(direction="outbound")[0])


def test_row_32_who_waited_names_the_reply_that_came_meanwhile(
    api: ApiClient, asked: Message
) -> None:
    first = accepted_id(api.answer("reply", asked.public_id, key="first"))
    body = booking(thread_id=asked.thread.public_id)

    with waiting(lambda: api.send(body, key="second")) as answers:
        depart(first)

    second = accepted_id(answers[0])
    reply = Message.objects.get(public_id=first)
    assert fields(second)["In-Reply-To"] == f"<{reply.rfc_message_id}>"
    assert fields(second)["References"].endswith(f"<{reply.rfc_message_id}>")
    row = Message.objects.get(public_id=second)
    assert (row.in_reply_to, row.ref_ids[-1]) == (reply.rfc_message_id,) * 2


def test_what_a_wait_made_old_is_written_again_and_leaves_no_second_copy(
    api: ApiClient, asked: Message
) -> None:
    first = accepted_id(api.answer("reply", asked.public_id, key="first"))
    body = booking(thread_id=asked.thread.public_id)
    file = {"filename": "a", "content_type": "a/b", "content_base64": "YQ=="}

    with waiting(lambda: api.send({**body, "attachments": [file]}, key="2")) as answers:
        depart(first)

    message = Message.objects.get(public_id=accepted_id(answers[0]))
    attachment = message.attachments.get()
    assert objects.get(attachment.object_key) == b"a"
    mime = objects.get(message.raw_key or "")
    assert len(mime) == message.raw_size


def test_a_waiting_request_holds_its_key_and_no_row(
    api: ApiClient, asked: Message, identity: Identity
) -> None:
    first = accepted_id(api.answer("reply", asked.public_id, key="first"))

    with waiting(lambda: api.answer("reply", asked.public_id, key="second")) as answers:
        same_key = api.answer("reply", asked.public_id, key="second")
        with transaction.atomic(), connection.cursor() as cursor:
            for table in ("mailbox_state", "threads", "quota_accounts", "messages"):
                cursor.execute(f"SELECT 1 FROM {table} FOR UPDATE NOWAIT")  # noqa: S608
        depart(first)

    assert (same_key.status_code, code_of(same_key)) == (409, "request_in_progress")
    assert accepted_id(answers[0]) != first
    again = api.answer("reply", asked.public_id, key="second")
    assert again.json()["deduplicated"] is True


def test_a_thread_is_waited_for_ten_seconds_and_no_longer(
    api: ApiClient, asked: Message, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert thread_lock.PATIENCE_SECONDS == 10.0
    assert thread_lock.STEP_SECONDS == 0.25
    monkeypatch.setattr(thread_lock, "PATIENCE_SECONDS", 0.6)
    steps: list[None] = []
    points.planted["submit.thread_wait"] = lambda: steps.append(None)
    accepted_id(api.answer("reply", asked.public_id, key="first"))

    refused = api.answer("reply", asked.public_id, key="second")

    assert code_of(refused) == "thread_busy"
    assert refused.json()["error"]["details"] == {"retry_after": 60}
    assert 1 <= len(steps) <= 3
    assert Message.objects.filter(direction="outbound").count() == 1


def test_a_holder_that_died_holds_the_thread_until_its_lease_ends(
    api: ApiClient, asked: Message, identity: Identity
) -> None:
    first = accepted_id(api.answer("reply", asked.public_id, key="first"))
    lease = Thread.objects.get().lock_until
    assert lease is not None
    assert abs(lease - database_now() - timedelta(seconds=120)) < timedelta(seconds=9)

    with waiting(lambda: api.answer("reply", asked.public_id, key="second")) as answers:
        clock.offset += timedelta(seconds=121)

    second = accepted_id(answers[0])
    assert Thread.objects.get().lock_owner == second
    depart(first)  # its worker comes after all: it lets go of no lock but its own
    assert Thread.objects.get().lock_owner == second


def test_a_claim_renews_the_lease_and_its_end_lets_the_thread_go(
    api: ApiClient, asked: Message
) -> None:
    first = accepted_id(api.answer("reply", asked.public_id, key="first"))
    leases: list[Any] = []
    transport = ScriptedTransport([])
    points.planted.clear()

    class Looking(ScriptedTransport):
        def send(self, message: Any) -> Any:
            leases.append(Thread.objects.get().lock_until)
            return transport.send(message)

    assert work(first, Looking()) is not None
    left = leases[0] - database_now()
    assert timedelta(seconds=45) < left <= timedelta(seconds=60)
    assert Thread.objects.get().lock_until is None


def test_only_so_many_requests_wait_in_a_process(
    api: ApiClient, asked: Message, settings: Settings
) -> None:
    settings.PM_LOCK_WAITERS = 1
    first = accepted_id(api.answer("reply", asked.public_id, key="first"))

    with waiting(lambda: api.answer("reply", asked.public_id, key="second")) as answers:
        one_more = api.answer("reply", asked.public_id, key="third")
        assert code_of(one_more) == "thread_busy"
        depart(first)

    depart(accepted_id(answers[0]))
    accepted_id(api.answer("reply", asked.public_id, key="third"))


@pytest.mark.parametrize(
    ("waiters", "threads", "most"), [(0, 16, 8), (3, 16, 3), (0, 1, 1)]
)
def test_half_the_webs_threads_may_wait_unless_a_number_is_set(
    settings: Settings, waiters: int, threads: int, most: int
) -> None:
    settings.PM_LOCK_WAITERS, settings.PM_WEB_THREADS = waiters, threads

    assert thread_lock.most_waiters() == most


def test_row_32_three_automatic_replies_at_once_stay_below_the_cap(
    api: ApiClient, asked: Message, racers: Racers
) -> None:
    def answer(key: str) -> Any:
        body = {"text": "Away.", "kind": "auto_reply"}
        return api.answer("reply", asked.public_id, body, key=key)

    def let_go() -> None:
        automatic = Message.objects.filter(kind="auto_reply")
        for n in (1, 2):
            until(lambda: automatic.count() == n)  # noqa: B023  called at once
            depart(Message.objects.get(status="queued").public_id)

    answers = racers.at_once([*(partial(answer, k) for k in "abc"), let_go])[:3]

    codes = sorted(response.status_code for response in answers)  # type: ignore[attr-defined]  # responses
    assert codes == [202, 202, 409]
    refused = next(r for r in answers if r.status_code == 409)  # type: ignore[attr-defined]  # responses
    assert code_of(refused) == "auto_reply_not_allowed"
    assert Message.objects.filter(kind="auto_reply").count() == 2


def test_new_threads_at_once_get_numbers_of_their_own_that_their_tokens_name(
    api: ApiClient, identity: Identity, racers: Racers
) -> None:
    Domain.objects.update(reply_token="subaddress")

    for n in range(3):
        answers = racers.at_once(
            [partial(api.send, booking(), key=f"{n}-{k}") for k in range(8)]
        )
        for response in answers:
            message = Message.objects.get(public_id=accepted_id(response))
            address = message.reply_to[0]["address"]
            assert address in fields(message.public_id)["Reply-To"]
            assert token_of(address, identity) == Valid(message.thread.seq)
    assert Thread.objects.count() == 24
    identity.mailbox.refresh_from_db()
    assert identity.mailbox.next_thread_seq > max(
        Thread.objects.values_list("seq", flat=True)
    )


def test_a_token_names_its_thread_until_its_key_has_been_gone_for_90_days(
    api: ApiClient, identity: Identity, asked: Message
) -> None:
    Domain.objects.update(reply_token="subaddress")
    answer = api.answer("reply", asked.public_id)
    address = answer.json()["reply_to"][0]["address"]
    named = Valid(asked.thread.seq)

    assert token_of(address, identity) == named
    assert token_of(address, AddressFactory.create().identity) == Invalid()
    rotate_key(KeyPurpose.THREAD)
    assert token_of(address, identity) == named
    later = api.send(booking(), key="later").json()["reply_to"][0]["address"]
    assert "+t1" in later
    clock.offset += timedelta(days=91)
    assert token_of(address, identity) == Invalid()
    assert isinstance(token_of(later, identity), Valid)


def test_row_46_deleting_a_message_or_its_thread_leaves_the_key(
    api: ApiClient, asked: Message
) -> None:
    first = api.answer("reply", asked.public_id)
    depart(accepted_id(first))

    Message.objects.get(public_id=first.json()["id"]).delete()
    without_message = api.answer("reply", asked.public_id)
    Thread.objects.all().delete()
    without_thread = api.answer("reply", asked.public_id)

    for again in (without_message, without_thread):
        assert again.json() == {**first.json(), "deduplicated": True}
    assert not Message.objects.exists()


def test_r14_another_body_waits_its_turn_and_then_learns_of_the_conflict(
    api: ApiClient, asked: Message
) -> None:
    first = accepted_id(api.answer("reply", asked.public_id, key="first"))
    one, other = {"text": "A"}, {"text": "B"}

    def slow() -> Any:
        return api.answer("reply", asked.public_id, one, key="k")

    with waiting(slow) as answers:
        meanwhile = api.answer("reply", asked.public_id, other, key="k")
        depart(first)

    after = api.answer("reply", asked.public_id, other, key="k")
    assert code_of(meanwhile) == "request_in_progress"
    assert code_of(after) == "idempotency_conflict"
    details = after.json()["error"]["details"]
    assert details == {"original_message_id": accepted_id(answers[0])}


@pytest.mark.parametrize("route", ["thread", "reply"])
def test_who_waited_never_names_a_message_that_did_not_leave(
    api: ApiClient, asked: Message, route: str
) -> None:
    first = accepted_id(api.answer("reply", asked.public_id, key="first"))
    body = booking(thread_id=asked.thread.public_id)

    def second() -> Any:
        if route == "thread":
            return api.send(body, key="second")
        return api.answer("reply", first, key="second")

    with waiting(second) as answers:
        assert work(first, ScriptedTransport([REFUSED])) is not None

    assert Message.objects.get(public_id=first).status == "rejected"
    shown = fields(accepted_id(answers[0]))
    assert shown["In-Reply-To"] == f"<{asked.rfc_message_id}>"
    assert shown["References"].endswith(f"<{asked.rfc_message_id}>")


def test_who_waited_names_the_id_that_a_provider_gave_meanwhile(
    api: ApiClient, asked: Message
) -> None:
    first = accepted_id(api.answer("reply", asked.public_id, key="first"))
    given = Accepted("id-1", rfc_message_id="id-1@provider.example")

    with waiting(lambda: api.answer("reply", first, key="second")) as answers:
        assert work(first, ScriptedTransport([given])) is not None

    shown = fields(accepted_id(answers[0]))
    assert shown["In-Reply-To"] == "<id-1@provider.example>"
    assert shown["References"].endswith("<id-1@provider.example>")


def test_who_waited_writes_from_the_address_that_is_in_use_by_then(
    api: ApiClient, asked: Message, identity: Identity
) -> None:
    first = accepted_id(api.answer("reply", asked.public_id, key="first"))
    old = Address.objects.get()

    with waiting(lambda: api.answer("reply", asked.public_id, key="second")) as answers:
        Address.objects.update(role="alias", status="retired")
        new = AddressFactory.create(
            identity=identity, domain=old.domain, local_part="new"
        )
        depart(first)

    assert answers[0].json()["from"]["address"] == new.address
    assert new.address in fields(accepted_id(answers[0]))["From"]


def test_who_waited_while_a_loop_closed_is_refused(
    api: ApiClient, asked: Message, identity: Identity
) -> None:
    first = accepted_id(api.answer("reply", asked.public_id, key="first"))
    body = booking(thread_id=asked.thread.public_id)

    with waiting(lambda: api.send(body, key="second")) as answers:
        received(identity, thread=asked.thread, automated={"hop": 9})
        depart(first)

    assert (answers[0].status_code, code_of(answers[0])) == (409, "loop_detected")
    assert Message.objects.filter(direction="outbound").count() == 1


def test_who_waited_keeps_to_the_platforms_address_that_the_thread_is_pinned_to(
    api: ApiClient, asked: Message, identity: Identity
) -> None:
    platform = AddressFactory.create(
        identity=identity,
        role="alias",
        domain=DomainFactory.create(tenant=None, kind="platform"),
    )
    first = accepted_id(api.answer("reply", asked.public_id, key="first"))

    with waiting(lambda: api.answer("reply", asked.public_id, key="second")) as answers:
        Thread.objects.update(fallback_pinned=True)
        depart(first)

    assert answers[0].json()["from"]["address"] == platform.address


def test_who_waited_is_judged_by_what_is_true_by_then(
    api: ApiClient, asked: Message, identity: Identity
) -> None:
    accepted_id(api.answer("reply", asked.public_id, key="first"))

    with waiting(lambda: api.answer("reply", asked.public_id, key="second")) as answers:
        received(identity, thread=asked.thread)
        Identity.objects.update(status="paused", pause_reason="manual")
        Thread.objects.update(lock_owner=None, lock_until=None)

    assert code_of(answers[0]) == "identity_paused"
