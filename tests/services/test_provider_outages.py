"""A provider is away for ten minutes: what that costs, over real sockets.

One worker, and a message each minute. Three calls end in doubt; from then on a
probe asks something harmless before it sends, so it costs nobody's mail.
"""

import socket
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from pytest_django import Settings

from core import clock
from core.clock import database_now
from delivery.models import Attempt, OutboundState
from mailboxes.models import Alert, Message
from outbound import claims
from outbound.alarms import sweep_claims
from outbound.deliver import deliver
from outbound.models import Breaker
from tests.services.conftest import assert_units_add_up
from tests.support.cloudflare import (
    account_at,
    queued,
    shorten,
    thread_of_cloudflare,
)
from tests.support.cloudflare_server import CloudflareServer, Say, envelope
from tests.support.queued import move_to, queued_for, thread_with_relay
from tests.support.queued import queue as queue_for_relay
from tests.support.ses_server import SesServer, refusing
from tests.support.smtp_server import SmtpServer

pytestmark = pytest.mark.django_db
EVERY, MINUTE = 60.0, 60.0
AWAY_FROM, AWAY_UNTIL = 1 * MINUTE, 11 * MINUTE
Later = Callable[[float], None]


@pytest.fixture
def refused() -> str:
    """The address of a host that refuses every connection."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a host that takes every connection and never says a word."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as hole:
        yield f"http://127.0.0.1:{hole.getsockname()[1]}"


def live_through(
    messages: list[Message], *, switch: Callable[[bool], None], minutes: float
) -> None:
    """Ring whatever is due, minute after minute; one message comes each minute."""
    start = database_now()
    for n, message in enumerate(messages):
        due = start + timedelta(seconds=n * EVERY)
        Message.objects.filter(pk=message.pk).update(received_at=due)
        OutboundState.objects.filter(message=message).update(dispatch_at=due)
    waiting = OutboundState.objects.filter(claim_token=None).order_by("dispatch_at")
    ends = start + timedelta(minutes=minutes)
    while (row := waiting.first()) is not None and row.dispatch_at is not None:
        if row.dispatch_at > ends:
            break
        clock.offset += max(row.dispatch_at - database_now(), timedelta(0))
        at = (database_now() - start).total_seconds()
        switch(AWAY_FROM <= at < AWAY_UNTIL)
        deliver(row.message.public_id)


def assert_cost(uncertain: int, *, of: int) -> None:
    """Assert that so many are in doubt, the rest is out, and nothing is left over."""
    found = Counter(Message.objects.values_list("status", flat=True))
    assert found["uncertain"] == uncertain
    assert found["submitted"] == of - uncertain
    doubtful = Attempt.objects.filter(result="uncertain")
    assert doubtful.count() == uncertain
    assert not OutboundState.objects.exists()
    assert not Breaker.objects.exists()
    assert not Alert.objects.filter(resolved_at=None).exists()
    assert_units_add_up(Message.objects.all()[0])


@pytest.mark.parametrize("kind", ["refused", "silent"])
def test_ten_minutes_without_cloudflare_leave_three_in_doubt(
    kind: str,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    away: str = request.getfixturevalue(kind)
    shorten(monkeypatch, 0.1 if kind == "silent" else 5)
    messages = [queued(thread=thread_of_cloudflare()) for _ in range(13)]
    with CloudflareServer() as server:
        for name, value in account_at(server).items():
            setattr(settings, name, value)

        def switch(is_away: bool) -> None:
            settings.PM_CF_API_BASE = away if is_away else server.base

        live_through(messages, switch=switch, minutes=60)

        assert_cost(3, of=13)
        assert len(server.sends) == 10
        assert max(server.copies.values()) == 10  # jo, by 10 messages
        questions = [seen for seen in server.requests if seen.method == "GET"]
        assert [seen.query for seen in questions] == [{"per_page": "1"}]
    probes = Attempt.objects.filter(code="provider_away")
    assert probes.count() == 1
    assert probes.get().result == "retry"


def test_ten_minutes_without_ses_leave_three_in_doubt(
    ses: SesServer, settings: Settings, refused: str
) -> None:
    messages = [queued_for("ses") for _ in range(13)]
    there = settings.PM_SES_ENDPOINT_URL

    def switch(is_away: bool) -> None:
        settings.PM_SES_ENDPOINT_URL = refused if is_away else there

    live_through(messages, switch=switch, minutes=60)

    assert_cost(3, of=13)
    assert len(ses.mails) == 10
    assert ses.questions == ["/v2/email/account"]


def test_ten_minutes_without_a_relay_leave_nothing_in_doubt() -> None:
    """Before the dot nothing is sent, so a relay that is away leaves no doubt."""
    with SmtpServer() as server:
        thread = thread_with_relay(server)
        messages = queue_for_relay(13, thread)

        def switch(is_away: bool) -> None:
            move_to(server, thread, port=1 if is_away else server.port)

        live_through(messages, switch=switch, minutes=90)

        assert_cost(0, of=13)
        assert server.copies.total() == 13


def test_row_45_a_provider_away_for_a_day_costs_three_and_the_probe_that_was_killed(
    settings: Settings, refused: str
) -> None:
    # Given five messages, of which three are in doubt
    settings.PM_BACKOFF_SCALE = 6  # waits from half an hour to six hours: fewer probes
    messages = [queued(thread=thread_of_cloudflare()) for _ in range(5)]
    for name, value in {"PM_CF_ACCOUNT_ID": "a", "PM_CF_API_BASE": refused}.items():
        setattr(settings, name, value)
    for message in messages:
        deliver(message.public_id)
    assert Counter(status_of(messages)) == {"uncertain": 3, "queued": 2}

    # When the worker of the first probe is killed, and the provider stays away
    clock.offset += timedelta(minutes=34)
    assert claims.claim(messages[3].public_id) is not None
    ring_until_nothing_waits()

    # Then no other mail was risked, and what waited for a day has failed
    assert status_of(messages) == ["uncertain"] * 4 + ["failed"]
    assert Attempt.objects.get(phase="worker_lost").message == messages[3]
    away = Attempt.objects.filter(code="provider_away")
    assert away.count() >= 4
    assert not OutboundState.objects.exists()
    assert_units_add_up(messages[0])


def status_of(messages: list[Message]) -> list[str]:
    """Return the statuses, in the messages' order."""
    for message in messages:
        message.refresh_from_db()
    return [message.status for message in messages]


def ring_until_nothing_waits() -> None:
    """Ring what is due and run the alarm, for as long as anything is left."""
    while (row := OutboundState.objects.order_by("dispatch_at").first()) is not None:
        due = row.dispatch_at or database_now() + timedelta(seconds=300)
        clock.offset += max(due - database_now(), timedelta(0))
        deliver(row.message.public_id)
        sweep_claims()


# --- the question --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "is_there"),
    [
        (Say(200, envelope([])), True),
        (Say(403, "<html>no</html>"), True),
        (Say(429, ""), True),
        (Say(503, envelope(None, success=False)), False),
        ("reset", False),
        ("half", False),
    ],
    ids=str,
)
def test_a_probe_sends_when_the_provider_answers_at_all(
    answer: Say | str, is_there: bool, settings: Settings, later: Later
) -> None:
    messages = [queued(thread=thread_of_cloudflare()) for _ in range(4)]
    with CloudflareServer(*["reset_after"] * 3) as server:
        for name, value in account_at(server).items():
            setattr(settings, name, value)
        for message in messages[:3]:
            deliver(message.public_id)
        server.lookup = answer
        later(301)

        deliver(messages[3].public_id)

        assert len(server.sends) == (4 if is_there else 3)
    messages[3].refresh_from_db()
    assert messages[3].status == ("submitted" if is_there else "queued")
    assert Breaker.objects.exists() is not is_there
    if not is_there:
        assert Breaker.objects.get().openings == 2


@pytest.mark.parametrize(
    ("status", "is_there"), [(200, True), (403, True), (500, False), (503, False)]
)
def test_a_probe_asks_ses_about_the_account(
    ses: SesServer, status: int, is_there: bool, later: Later
) -> None:
    messages = [queued_for("ses") for _ in range(4)]
    ses.acts.extend([refusing(500)] * 3)
    ses.account = (status, b"{}")
    for message in messages[:3]:
        deliver(message.public_id)
    later(301)

    deliver(messages[3].public_id)

    assert len(ses.mails) == int(is_there)
    assert len(ses.questions) == 1
    assert Breaker.objects.exists() is not is_there
