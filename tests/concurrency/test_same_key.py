"""One key, many requests at once: one message (faults, rows 1 and 2; reports, R16)."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from core import objects
from delivery.models import Delivery
from mailboxes.models import Message
from outbound.models import LedgerEntry
from quota.models import Allowance, Hold
from tests.support.api import ApiClient, booking
from tests.support.processes import Processes, Running
from tests.support.racers import Racers
from tests.support.waiting import until
from tests.support.web import Answer, Sender

pytestmark = pytest.mark.django_db(transaction=True)

KEYS, BODIES_KEYS, AT_ONCE = 60, 100, 50
WEB_THREADS, LONGER_THAN_ANY_LEASE = 16, 12.0


@pytest.fixture
def fifty(transactional_db: None) -> Iterator[Racers]:
    """Fifty threads that start together."""
    threads = Racers(AT_ONCE)
    yield threads
    threads.close()


@pytest.fixture
def sixteen(transactional_db: None) -> Iterator[Racers]:
    """As many threads, each with its connection, as a web process has."""
    threads = Racers(WEB_THREADS)
    yield threads
    threads.close()


@pytest.fixture(scope="module")
def webs(
    django_db_setup: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[Running]]:
    """Two web processes."""
    found = Processes(tmp_path_factory.mktemp("webs"))
    yield [found.web(threads=WEB_THREADS) for _ in range(2)]
    found.end_all()


def raced(racers: Racers, posts: Sequence[Callable[[], Answer]]) -> list[Answer]:
    answers = racers.at_once(posts)
    assert all(isinstance(answer, Answer) for answer in answers), answers
    return [answer for answer in answers if isinstance(answer, Answer)]


def test_fifty_requests_with_one_key_make_one_message(
    webs: list[Running], fifty: Racers, sender: Sender
) -> None:
    seen: Counter[str] = Counter()
    for n in range(KEYS):
        key, body = f"key-{n}", booking(subject=f"About {n}")
        posts = [
            partial(sender.post, webs[i % 2].url, key, body) for i in range(AT_ONCE)
        ]

        answers = raced(fifty, posts)

        accepted = [answer for answer in answers if answer.status == 202]
        others = [answer for answer in answers if answer.status != 202]
        assert len({answer.body["id"] for answer in accepted}) == 1
        first = [a for a in accepted if not a.body["deduplicated"]]
        assert len(first) == 1
        assert all(
            a.headers["idempotent-replayed"] == "true"
            for a in accepted
            if a not in first
        )
        assert {(a.status, a.code) for a in others} <= {(409, "request_in_progress")}
        seen["accepted"] += len(accepted)
        seen["in progress"] += len(others)
        again = sender.post(webs[n % 2].url, key, body)
        assert again.body == {**first[0].body, "deduplicated": True}
    assert seen["in progress"] > 0
    assert seen["accepted"] > KEYS
    assert_one_each(KEYS)


def test_two_bodies_under_one_key_and_one_wins(
    webs: list[Running], fifty: Racers, sender: Sender
) -> None:
    codes: Counter[str] = Counter()
    for n in range(BODIES_KEYS):
        bodies = [booking(text=f"{side} of {n}") for side in ("this", "that")]
        posts = [
            partial(sender.post, webs[(i // 2) % 2].url, f"key-{n}", bodies[i % 2])
            for i in range(AT_ONCE)
        ]

        answers = raced(fifty, posts)

        winners = {
            (a.body["id"], a.body["extracted_text"]) for a in answers if a.status == 202
        }
        assert len(winners) == 1
        message_id, text = winners.pop()
        codes.update(a.code for a in answers if a.status != 202)
        message = Message.objects.get(public_id=message_id)
        assert message.text == text
        assert message.raw_key is not None
        assert text.encode() in objects.get(message.raw_key)
    assert set(codes) <= {"idempotency_conflict", "request_in_progress"}
    assert codes["idempotency_conflict"] > 0
    assert_one_each(BODIES_KEYS)


def assert_one_each(keys: int) -> None:
    """Hold the rows against one message, delivery, hold and ledger row a key."""
    assert Message.objects.count() == LedgerEntry.objects.count() == keys
    assert Delivery.objects.count() == Hold.objects.count() == keys
    assert Allowance.objects.get().held == keys
    named = set(LedgerEntry.objects.values_list("message_id", flat=True))
    assert named == set(Message.objects.values_list("public_id", flat=True))


def test_a_request_slower_than_any_lease_keeps_its_key(
    processes: Processes, webs: list[Running], sender: Sender, tmp_path: Path
) -> None:
    # Given a request that stands still in the middle of its transaction
    reached, released = tmp_path / "reached", tmp_path / "go"
    plan = f"submit.second_look@1=mark:{reached}+await:{released}"
    slow = processes.web(planted=plan)
    other = webs[0]
    answers: list[Answer] = []
    thread = threading.Thread(
        target=lambda: answers.append(sender.post(slow.url, "key", booking()))
    )
    thread.start()
    until(reached.exists)

    # When the same key comes again, for twelve seconds
    codes: Counter[str] = Counter()
    pause, ends = threading.Event(), time.monotonic() + LONGER_THAN_ANY_LEASE
    while time.monotonic() < ends:
        for web in (slow, other):
            codes[sender.post(web.url, "key", booking()).code] += 1
        pause.wait(0.5)
    released.touch()
    thread.join(timeout=30)

    # Then it was always in progress, and there is one message
    assert set(codes) == {"request_in_progress"}
    assert answers[0].status == 202
    again = sender.post(other.url, "key", booking())
    assert (again.body["id"], again.body["deduplicated"]) == (
        answers[0].body["id"],
        True,
    )
    assert_one_each(1)


def test_the_threads_of_one_process_make_one_message(
    sixteen: Racers, sender: Sender, settings: Settings
) -> None:

    settings.PM_RATE_PER_KEY = settings.PM_RATE_PER_TENANT = settings.PM_RATE_SENDS = 0
    client = ApiClient(sender.secret, sender.identity.id)

    answers: list[Any] = sixteen.at_once(
        [partial(client.send, booking()) for _ in range(WEB_THREADS)]
    )

    statuses = Counter(answer.status_code for answer in answers)
    assert set(statuses) <= {202, 409}
    assert statuses[202] >= 1
    assert_one_each(1)
