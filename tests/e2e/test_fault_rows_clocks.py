"""Hosts whose clocks disagree by ten minutes act as one."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.clocks import with_shifted_clock
from tests.support.processes import ROOT, Processes, until
from tests.support.sending import Client, settle, status_of
from tests.support.smtp_script import Script
from tests.support.smtp_server import Connection, SmtpServer
from tests.support.times import SHORT

pytestmark = pytest.mark.django_db(transaction=True)

TEN_MINUTES = 600.0
SLOW = {
    **SHORT,
    "PM_CLAIM_SECONDS": 16,
    "PM_SMTP_FINAL_SECONDS": 4,
    "PM_BACKOFF_SCALE": 0.05,
}
BACK_OFF = 60 * 0.05 * 0.9
"""The least that a first back-off may last, jitter taken off, in seconds."""


def at(seconds: float) -> dict[str, Any]:
    """Return the environment of a host whose clock is off by so many seconds."""
    return with_shifted_clock({"PYTHONPATH": str(ROOT)}, seconds=seconds)


def test_clocks_ten_minutes_apart_take_no_claim_over_and_retry_nothing_early(
    crew: Processes, account: Callable[[SmtpServer], Client]
) -> None:
    """Row 44: one worker ten minutes ahead, one ten minutes behind."""
    called: list[float] = []

    def note(_: Connection) -> None:
        called.append(time.monotonic())

    # Given a relay that answers slowly, and one that defers the first time
    slow = Script(always={"dot": "late:1.5;250 2.0.0 queued"})
    deferring = Script(
        connections=[{"greeting": "hook:note", "dot": "451 4.3.0 later"}],
        always={"greeting": "hook:note"},
    )
    with (
        SmtpServer(slow) as slow_relay,
        SmtpServer(deferring, hooks={"note": note}) as deferring_relay,
    ):
        sender, deferred = account(slow_relay), account(deferring_relay)

        # When each worker in turn holds claims while the other's alarm looks
        ahead = crew.worker(**SLOW, **at(TEN_MINUTES))
        first = sender.accept_many(["held-ahead-1", "held-ahead-2"])
        until(lambda: len(slow_relay.mails) == 2, what="two calls of the one ahead")
        crew.worker(**SLOW, **at(-TEN_MINUTES))
        until(lambda: all(status_of(m) != "queued" for m in first))
        ahead.freeze_idle()
        second = sender.accept_many(["held-behind-1", "held-behind-2"])
        until(lambda: len(slow_relay.mails) == 4, what="two calls of the one behind")
        ahead.thaw()
        deferred.accept("deferred")

        # Then no claim was taken over
        copies = settle(sender, deferred, relays=[slow_relay, deferring_relay])
        assert {status_of(message) for message in first + second} == {"submitted"}
        assert len(slow_relay.connections) == 4
        assert sum(copies.values()) == 5

        # And the retry waited for its time by the database's clock
        assert len(called) == 2
        assert called[1] - called[0] >= BACK_OFF


def test_a_web_host_31_days_ahead_forgets_no_key(
    crew: Processes, relay: SmtpServer, sender: Client
) -> None:
    """Row 44: whether a key has expired is asked of the database's clock."""
    message = sender.accept("kept")
    hasty = crew.web(**at(31 * 86400.0))
    again = sender.post("kept", base_url=hasty.url)
    assert again.json() == {**again.json(), "id": message, "deduplicated": True}

    crew.worker(**SHORT)
    assert sum(settle(sender, relays=[relay]).values()) == 1
