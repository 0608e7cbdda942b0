"""Processes die, and answers are lost, around the commit of a submit."""

import httpx
import pytest

from mailboxes.models import Message
from tests.support.database import database_url
from tests.support.pg_proxy import Fault, PgProxy
from tests.support.processes import Processes, until
from tests.support.sending import Client, settle, status_of
from tests.support.smtp_server import SmtpServer
from tests.support.times import SHORT

pytestmark = pytest.mark.django_db(transaction=True)

LEDGER = r"insert into .?idempotency"


def test_a_web_process_killed_between_commit_and_bell_loses_nothing(
    crew: Processes, relay: SmtpServer, sender: Client
) -> None:
    """Row 5, must hold 6: sent without a retry of the client, and a retry replays."""
    # Given a worker that has gone idle, and a web process that dies after its commit
    crew.worker(**SHORT)
    doomed = crew.web(planted="submit.committed=kill")
    with pytest.raises(httpx.TransportError):
        sender.post("no-answer", base_url=doomed.url)

    # When nobody rings and nobody asks again, then it is sent all the same
    until(lambda: len(relay.mails) == 1, seconds=5, what="the mail")

    # And the client's retry gets the one message
    message = sender.accept("no-answer")
    assert sum(settle(sender, relays=[relay]).values()) == 1
    assert status_of(message) == "submitted"
    assert Message.objects.filter(tenant=sender.account.tenant_id).count() == 1


def test_a_worker_sees_a_submit_when_it_is_committed_and_never_before(
    crew: Processes, relay: SmtpServer, sender: Client
) -> None:
    """R10: one submit held for a second before its commit, another rolled back."""
    worker = crew.worker(**SHORT)
    with PgProxy(database_url()) as proxy:
        through = crew.web(DATABASE_URL=proxy.url)

        # Given a submit whose COMMIT never arrives: nobody is told it was accepted
        lost = proxy.at_commit(Fault.CUT_BEFORE, marker=LEDGER)
        answer = sender.post("rolled-back", base_url=through.url)
        lost.wait()
        assert answer.status_code == httpx.codes.SERVICE_UNAVAILABLE

        # And one whose COMMIT is held
        held = proxy.at_commit(Fault.HOLD, marker=LEDGER, seconds=1.0)
        message = sender.accept("held", base_url=through.url)
        held.wait()
        assert sender.took[-1] >= 1

        # Then the one is sent once, the other never
        copies = settle(sender, relays=[relay])
        crew.end_all()
    assert list(copies) == [("held", "jo@example.net")]
    assert status_of(message) == "submitted"
    assert "Traceback" not in worker.output
    assert "not_found" not in worker.output
