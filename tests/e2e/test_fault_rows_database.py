"""The database restarts, and a host vanishes with rows locked."""

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from core.database import fetch_one
from delivery.models import Attempt
from tests.support.own_server import OwnServer
from tests.support.processes import Processes, Running, until
from tests.support.sending import Client, colleague_of, open_account, settle, status_of
from tests.support.smtp_script import Script
from tests.support.smtp_server import Connection, SmtpServer
from tests.support.times import SHORT

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_database_that_restarts_just_after_the_250_loses_no_record(
    crew: Processes,
) -> None:
    """Row 9: tried again while the claim lives; nobody calls the relay again."""
    # Given a relay that answers the dot while the database is being restarted
    dot, restarted = threading.Event(), threading.Event()

    def restart(_: Connection) -> None:
        dot.set()
        restarted.wait(20)

    script = Script(always={"dot": "hook:restart;250 2.0.0 queued"})
    patient = {**SHORT, "PM_CLAIM_SECONDS": 60, "PM_SMTP_FINAL_SECONDS": 20}
    with OwnServer() as server, SmtpServer(script, hooks={"restart": restart}) as relay:
        web = crew.web(DATABASE_URL=server.url)
        crew.worker(DATABASE_URL=server.url, **patient)
        sender = open_account(relay, base_url=web.url)
        message = sender.accept("restart")
        assert dot.wait(20)
        server.stop()

        # When the 250 comes first, and the database a little later
        restarted.set()
        until(lambda: relay.open_now == 0, what="the end of the call")
        server.start()

        # Then the outcome is recorded, once, on a new connection
        copies = settle(sender, relays=[relay], seconds=30, url=server.url)
        assert status_of(message) == "submitted"
        assert Attempt.objects.get().result == "accepted"
        assert sum(copies.values()) == len(relay.connections) == 1

        # And the same processes go on
        sender.accept("after-the-restart")
        settle(sender, relays=[relay], seconds=30, url=server.url)
        crew.end_all()


def test_a_host_that_vanishes_with_rows_locked_lets_go_of_them(
    crew: Processes, web: Running, relay: SmtpServer, sender: Client
) -> None:
    """Row 31: frozen between lock and commit; others are served within 20 s."""
    assert fetch_one("SHOW idle_in_transaction_session_timeout") == ("15s",)
    assert fetch_one("SHOW lock_timeout") == ("5s",)

    # Given a web process that freezes with the mailbox and the quota row in its hands
    vanishing = crew.web(planted="submit.inserted@1=stop")
    neighbour = colleague_of(sender)
    with ThreadPoolExecutor(3) as threads:
        frozen = threads.submit(
            sender.post, "frozen", base_url=vanishing.url, seconds=60
        )
        until(lambda: rows_are_locked(sender), what="the locks of the frozen process")

        # When the same identity and another of the tenant send meanwhile
        started = time.monotonic()
        served = [
            threads.submit(accept_at_last, sender, "same-identity"),
            threads.submit(accept_at_last, neighbour, "same-tenant"),
        ]
        waits = [done.result() - started for done in served]

        # Then both are served in time, and the frozen one is told the truth
        assert max(waits) < 20
        os.killpg(vanishing.pid, signal.SIGCONT)
        assert frozen.result().status_code == httpx.codes.SERVICE_UNAVAILABLE
    assert "frozen" not in sender.accepted

    # And its key can be used again: one copy of each
    sender.accept("frozen")
    crew.worker(**SHORT)
    copies = settle(sender, neighbour, relays=[relay])
    assert sorted(copies.values()) == [1, 1, 1]


def rows_are_locked(client: Client) -> bool:
    """Tell whether somebody holds the rows of the client's mailbox."""
    row = fetch_one(
        "SELECT count(*) FROM (SELECT 1 FROM mailbox_state WHERE identity_id = %(id)s"
        " FOR NO KEY UPDATE SKIP LOCKED) AS free",
        {"id": client.account.identity_id},
    )
    return row == (0,)


def accept_at_last(client: Client, key: str) -> float:
    """Post until it is accepted, as a client does with a 503; return when it was."""
    while client.post(key).status_code != httpx.codes.ACCEPTED:
        continue
    return time.monotonic()
