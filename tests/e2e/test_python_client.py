"""The Python client against real servers, and between them what loses answers."""

import contextlib
import io
import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from typing import Any
from urllib.parse import urlsplit

import pytest

from mailboxes.models import Event, Message
from mailboxes.models import Identity as IdentityRow
from outbound.models import LedgerEntry
from pylota_client import (
    Accepted,
    Address,
    Attachment,
    Client,
    Clock,
    CursorExpired,
    IdempotencyConflict,
    Identity,
    InvalidRequest,
    NoAnswer,
    NotFound,
    Unauthenticated,
)
from tests.support import sending
from tests.support.answering import received
from tests.support.lossy_proxy import LossyProxy, Spoil
from tests.support.processes import ROOT, Processes, Running, until
from tests.support.smtp_server import SmtpServer
from tests.support.times import SHORT

pytestmark = pytest.mark.django_db(transaction=True)

FAULTS = [spoil for spoil in Spoil if spoil is not Spoil.NOTHING]
PLANS: list[tuple[Spoil, ...]] = [(), *product(FAULTS), *product(FAULTS, FAULTS)]
HASTE = 50.0
ONCE: dict[str, Any] = {"to": "jo@example.net", "subject": "Once", "text": "Hi"}


class HastyClock(Clock):
    """The real clock, whose sleeps are short."""

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds / HASTE)


@pytest.fixture
def proxy(web: Running) -> Iterator[LossyProxy]:
    """A proxy before the module's web process."""
    where = urlsplit(web.url)
    with LossyProxy((str(where.hostname), int(where.port or 0))) as proxy:
        yield proxy


@pytest.fixture
def client(proxy: LossyProxy, sender: sending.Client) -> Iterator[Client]:
    """A client that reaches the server through the proxy."""
    key = sender.account.api_key
    with Client(proxy.url, key, clock=HastyClock()) as client:
        yield client


@pytest.fixture
def bookings(client: Client, sender: sending.Client) -> Identity:
    """An identity that may send."""
    return client.identity(sender.account.identity_id)


def test_a_send_whose_answers_get_lost_is_one_message(
    bookings: Identity, proxy: LossyProxy
) -> None:
    """Each fault, and each pair of faults, once."""
    keys: set[str] = set()
    for number, plan in enumerate(PLANS):
        proxy.spoil(plan)
        before = proxy.requests

        sent = bookings.send(
            to=sending.RECIPIENT, subject=f"Number {number}", text="Hi"
        )

        assert proxy.requests - before == len(plan) + 1, plan
        assert sent.deduplicated is any(spoil.is_after for spoil in plan), plan
        stored = Message.objects.get(subject=f"Number {number}")
        assert stored.public_id == sent.id
        keys.add(sent.idempotency_key)

    assert len(keys) == len(PLANS) == 57
    assert Message.objects.count() == LedgerEntry.objects.count() == len(PLANS)


def test_an_answer_whose_answers_get_lost_is_one_message(
    bookings: Identity, proxy: LossyProxy
) -> None:
    """Each fault once, on each way to answer a message."""
    ways: list[Callable[[str], Accepted]] = [
        lambda original: bookings.reply(original, text="Yes."),
        lambda original: bookings.reply_all(original, text="Yes."),
        lambda original: bookings.forward(original, to="lee@example.org"),
    ]
    row = IdentityRow.objects.get(id=bookings.id)
    for fault, way in product(FAULTS, ways):
        original = received(row)
        proxy.spoil([fault])

        sent = way(original.public_id)

        assert sent.deduplicated is fault.is_after, fault
        thread = Message.objects.filter(thread=original.thread, direction="outbound")
        assert thread.get().public_id == sent.id


def test_reading_survives_every_fault(bookings: Identity, proxy: LossyProxy) -> None:
    sent = bookings.send(to=sending.RECIPIENT, subject="Hello", text="Hi")
    proxy.spoil(FAULTS)

    found = bookings.get(sent.id)

    assert (found.id, found.status, found.subject) == (sent.id, "queued", "Hello")
    assert found.raw == bookings.get(sent.id).raw


def test_who_gave_up_in_doubt_goes_on_with_the_key_of_the_error(
    bookings: Identity, proxy: LossyProxy, sender: sending.Client
) -> None:
    # Given a client that gives up after a moment, and answers that are lost throughout
    proxy.spoil([Spoil.ANSWER_CUT] * 1000)
    hasty = Client(proxy.url, sender.account.api_key, give_up_after=1.5)
    with hasty, pytest.raises(NoAnswer) as caught:
        hasty.identity(bookings.id).send(**ONCE)
    assert caught.value.may_be_accepted
    assert caught.value.gave_up
    proxy.heal()

    # When the same send is made with that key
    again = bookings.send(**ONCE, idempotency_key=caught.value.idempotency_key)

    # Then it is the one message that had been accepted
    assert again.deduplicated
    assert Message.objects.get().public_id == again.id


def test_a_server_that_is_away_for_a_while_is_waited_for(
    bookings: Identity, proxy: LossyProxy
) -> None:
    proxy.refuse()
    back = threading.Timer(0.3, proxy.admit)
    back.start()

    sent = bookings.send(**ONCE)

    back.join()
    assert not sent.deduplicated
    assert Message.objects.get().public_id == sent.id


def test_threads_share_a_client(bookings: Identity, proxy: LossyProxy) -> None:
    proxy.spoil(FAULTS * 4)

    def go(number: int) -> str:
        return bookings.send(
            to=sending.RECIPIENT, subject=f"Number {number}", text="Hi"
        ).id

    with ThreadPoolExecutor(4) as pool:
        ids = list(pool.map(go, range(20)))

    stored = Message.objects.values_list("public_id", flat=True)
    assert sorted(stored) == sorted(ids)
    assert len(set(ids)) == 20


def test_refusals_of_the_real_server_are_typed(
    bookings: Identity, client: Client, proxy: LossyProxy
) -> None:
    bookings.send(**ONCE, idempotency_key="once")

    with pytest.raises(IdempotencyConflict) as conflict:
        bookings.send(to="lee@example.org", subject="Two", idempotency_key="once")
    with pytest.raises(InvalidRequest) as invalid:
        bookings.send(to=[], subject="Three", text="Hi")
    with pytest.raises(NotFound) as missing:
        client.identity("idn_" + "0" * 26).send(**ONCE)
    with (
        Client(proxy.url, "pmk_live_nobody") as stranger,
        pytest.raises(Unauthenticated),
    ):
        stranger.identity(bookings.id).send(**ONCE)

    assert conflict.value.original_message_id == Message.objects.get().public_id
    assert invalid.value.errors[0].path == "to"
    assert missing.value.code == "identity_not_found"
    assert missing.value.request_id is not None


def test_a_dry_run_stores_nothing(bookings: Identity) -> None:
    found = bookings.dry_run.send(to=["jo@example.net"], subject="Hello", text="Hi")

    assert found.would_send
    assert [(each.address, each.status) for each in found.recipients] == [
        ("jo@example.net", "queued")
    ]
    assert not Message.objects.exists()


def test_files_and_names_arrive(bookings: Identity) -> None:
    sent = bookings.send(
        to=Address("jo@example.net", "Jo Bloggs"),
        cc="lee@example.org",
        subject="With a file",
        text="Hi",
        attachments=[Attachment("a.txt", b"12345", "text/plain")],
        metadata={"order": "7"},
    )

    found = bookings.get(sent.id)

    assert found.to == (Address("jo@example.net", "Jo Bloggs"),)
    assert [(file.filename, file.size) for file in found.attachments] == [("a.txt", 5)]
    assert found.metadata == {"order": "7"}
    assert [each.field for each in found.deliveries] == ["to", "cc"]


def test_waiting_ends_with_what_became_of_a_message_and_the_feed_tells_the_same(
    web: Running, crew: Processes, transactional_db: None
) -> None:
    crew.worker(**SHORT)
    account = sending.open_test_account(base_url=web.url).account
    with Client(web.url, account.api_key) as client:
        sender = client.identity(account.identity_id)
        names = ("delivered", "bounce", "timeout")
        ids = [
            sender.send(to=f"{name}@simulator.invalid", subject="Hello", text="Hi").id
            for name in names
        ]

        ends = [sender.wait(id_, timeout=10).status for id_ in ids]
        told = [feed_of(client, id_) for id_ in ids]

        # who resumes after the first event that it saw sees the others, once each
        seen = list(client.events())
        again = list(client.events(after_id=seen[0].id))
        with pytest.raises(CursorExpired):
            next(client.events(after_id="evt_" + "0" * 26))

    assert ends == ["delivered", "bounced", "uncertain"]
    assert told == [
        ["message.sent", "message.delivered"],
        ["message.sent", "message.bounced", "suppression.created"],
        ["message.uncertain"],
    ]
    assert [event.id for event in again] == [event.id for event in seen[1:]]
    assert {event.identity_id for event in seen} == {account.identity_id}
    stored = Event.objects.order_by("position").values_list("payload", flat=True)
    assert [event.raw for event in seen] == list(stored)


def feed_of(client: Client, message_id: str) -> list[str]:
    """Return the types of a message's events, once the worker has numbered them."""
    stored = Event.objects.filter(position=None)
    until(lambda: not stored.exists(), what="every event to have its place")
    return [event.type for event in client.events(message_id=message_id)]


def test_the_examples_of_the_pages_send_one_mail_however_often_they_are_run(
    crew: Processes,
    relay: SmtpServer,
    sender: sending.Client,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    crew.worker(**SHORT)
    monkeypatch.setenv("IDENTITY", sender.account.identity_id)
    monkeypatch.setenv("KEY", sender.account.api_key)
    for page in ("README.md", "clients/python/README.md"):
        (example,) = re.findall(
            r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL
        )
        assert "http://127.0.0.1:8000" in example
        program = example.replace("http://127.0.0.1:8000", sender.base_url)

        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            for _ in range(2):
                exec(compile(program, page, "exec"), {})  # noqa: S102  our own page

        last = Message.objects.latest("key").public_id
        assert printed.getvalue() == f"{last} submitted False\n{last} submitted True\n"
    assert len(relay.mails) == Message.objects.count() == 2
