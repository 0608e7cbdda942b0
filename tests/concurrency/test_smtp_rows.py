"""Each row of the SMTP table times twenty, all at once, counted at the relay.

What a worker does with a ring, on as many threads as find a slot: claim, call, record.
"""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from pytest_django import Settings

from core import clock, objects
from delivery.models import Attempt, Delivery, OutboundState
from mailboxes.models import Message
from outbound import dispatch, parked, slots
from outbound.compose import rfc_message_id_of
from outbound.deliver import deliver
from tests.services.conftest import assert_units_add_up
from tests.support.bulk_queue import queue_in_bulk
from tests.support.queued import thread_with_relay
from tests.support.smtp_script import Script
from tests.support.smtp_server import SmtpServer

pytestmark = pytest.mark.django_db(transaction=True)

A, B = "a@example.net", "b@example.net"
TIMES = 20
THREADS = 8
"""As many as hold a slot or wait for one."""
BOTH, NEITHER, ONLY_A = (1, 1), (0, 0), (1, 0)


@dataclass(frozen=True)
class Row:
    """A row of the table: the relay's act, and what becomes of message and copies."""

    script: Script
    result: str
    status: str
    deliveries: tuple[str, str]
    copies: tuple[int, int] = NEITHER
    reason: str | None = None
    ids: list[str] = field(default_factory=list)


def _all(status: str) -> tuple[str, str]:
    return (status, status)


def _plan(**plan: Any) -> Script:
    return Script(always=plan)


def _later(script: Script) -> Row:
    return Row(script, "retry", "queued", _all("queued"))


def _never(script: Script, reason: str = "provider_validation") -> Row:
    return Row(script, "rejected", "rejected", _all("rejected"), reason=reason)


def _sent(script: Script) -> Row:
    return Row(script, "accepted", "submitted", _all("submitted"), BOTH)


def _in_doubt(script: Script, reason: str) -> Row:
    return Row(script, "uncertain", "uncertain", _all("uncertain"), BOTH, reason)


NO = "550 5.1.1 no"
LATER = "451 4.2.1 later"


def _rows() -> dict[str, Row]:
    one_refused = _plan(rcpt={B: NO})
    one_deferred = _plan(rcpt={B: LATER})
    mixed = _plan(rcpt={A: NO, B: LATER})
    return {
        "failure before the dot": _later(_plan(data="drop")),
        "no STARTTLS": _never(Script(tls="none"), "sender_domain_unavailable"),
        "5xx to AUTH": _never(_plan(auth="535 5.7.8 no"), "sender_domain_unavailable"),
        "5xx to MAIL": _never(_plan(mail=NO)),
        "5xx to one RCPT": Row(
            one_refused, "accepted", "submitted", ("submitted", "rejected"), ONLY_A
        ),
        "5xx to each RCPT": _never(_plan(rcpt=NO)),
        "4xx to one RCPT": Row(
            one_deferred, "accepted", "queued", ("submitted", "queued"), ONLY_A
        ),
        "4xx to each RCPT": _later(_plan(rcpt=LATER)),
        "4xx and 5xx to RCPT": Row(mixed, "retry", "queued", ("rejected", "queued")),
        "250 to the dot": _sent(Script()),
        "4xx to the dot": _later(_plan(dot=LATER)),
        "5xx to the dot": _never(_plan(dot="552 5.3.4 no")),
        "lost after the dot": _in_doubt(_plan(dot="drop"), "transport_connection_lost"),
        "silent after the dot": _in_doubt(_plan(dot="hang"), "transport_timeout"),
        "QUIT fails": _sent(_plan(quit="421 4.3.2 closing")),
    }


def _queue(server: SmtpServer) -> list[str]:
    """Queue messages of a new domain for this relay, each with its own Message-ID."""
    identity = thread_with_relay(server).identity
    ids = queue_in_bulk(identity, TIMES, recipients=(A, B))
    messages = list(Message.objects.filter(public_id__in=ids))
    for message in messages:
        message.raw_key = f"rows/{message.public_id}.eml"
        head = f"Message-ID: <{_message_id(message)}>\r\nSubject: Row\r\n\r\nHi.\r\n"
        objects.put(message.raw_key, head.encode(), metadata={})
    Message.objects.bulk_update(messages, ["raw_key"])
    return ids


def _message_id(message: Message) -> str:
    return rfc_message_id_of(message.public_id, message.from_address or "")


def _work(ids: list[str], *, calls: int) -> None:
    """Ring all of them at once; again those that found no slot."""
    for _ in range(20):
        left = [id_ for id_ in ids if _calls(id_) < calls]
        if not left:
            return
        waiting = deque(left)

        def drain(waiting: deque[str] = waiting) -> None:
            try:
                while waiting:
                    deliver(waiting.popleft())
            except IndexError:
                pass  # another thread took the last
            finally:
                connection.close()

        with ThreadPoolExecutor(THREADS) as pool:
            for done in [pool.submit(drain) for _ in range(THREADS)]:
                done.result(200)
    raise AssertionError(f"{len(left)} found no slot")


def _calls(message_id: str) -> int:
    return Attempt.objects.filter(message__public_id=message_id).count()


@pytest.fixture
def relays() -> Iterator[Callable[[Script], SmtpServer]]:
    """Start relays; they end with the test."""
    with ExitStack() as stack:
        yield lambda script: stack.enter_context(SmtpServer(script))
    dispatch.Closing.is_set = False
    while parked.unpark() is not None:
        pass


def _assert_row(name: str, row: Row, server: SmtpServer) -> None:
    assert len(server.connections) == TIMES, name
    for message in Message.objects.filter(public_id__in=row.ids):
        found = dict(message.deliveries.values_list("address", "status"))
        (attempt,) = Attempt.objects.filter(message=message)
        assert attempt.result == row.result, name
        assert (message.status, message.reason) == (row.status, row.reason), name
        assert (found[A], found[B]) == row.deliveries, name
        id_ = f"<{_message_id(message)}>"
        assert (server.copies[id_, A], server.copies[id_, B]) == row.copies, name
        has_row = OutboundState.objects.filter(message=message).exists()
        assert has_row is (row.status == "queued"), name
        if row.result == "accepted":
            wanted = f"smtp:127.0.0.1:{_message_id(message)}"
            assert message.provider_message_id == wanted, name


@pytest.mark.timeout(300)
def test_every_row_of_the_smtp_table_times_twenty_at_once(
    relays: Callable[[Script], SmtpServer], settings: Settings
) -> None:
    # Given twenty messages for each row, no breaker, and little patience with silence
    settings.PM_BREAKER_SECONDS = 0
    settings.PM_SMTP_FINAL_SECONDS = 0.5
    rows = _rows()
    servers = {name: relays(row.script) for name, row in rows.items()}
    for name, row in rows.items():
        row.ids.extend(_queue(servers[name]))

    # When all of them are rung at once
    turns = zip(*(row.ids for row in rows.values()), strict=True)
    _work([id_ for turn in turns for id_ in turn], calls=1)

    # Then each row is as the table says, in the database and at its relay
    for name, row in rows.items():
        _assert_row(name, row, servers[name])
    for message in Message.objects.filter(
        public_id__in=[r.ids[0] for r in rows.values()]
    ):
        assert_units_add_up(message)
    assert slots.process_slots().held == 0

    # And of those that were taken in part, the rest is tried again, as the same mail
    deferred, relay = rows["4xx to one RCPT"], servers["4xx to one RCPT"]
    relay.follow(Script())
    settings.PM_SMTP_FINAL_SECONDS = 30
    clock.offset += timedelta(seconds=70)
    _work(deferred.ids, calls=2)
    assert {mail.message_id for mail in relay.mails[TIMES:]} == {
        mail.message_id for mail in relay.mails[:TIMES]
    }
    assert [mail.recipients for mail in relay.mails[TIMES:]] == [[B]] * TIMES
    assert set(relay.copies.values()) == {1}
    assert len(relay.copies) == 2 * TIMES
    stood = Delivery.objects.filter(message__public_id__in=deferred.ids)
    assert set(stood.values_list("status", flat=True)) == {"submitted"}
