"""A worker process, receivers and a relay: dead receivers hold up nobody else."""

from pathlib import Path
from signal import SIGTERM

import pytest

from mailboxes.statuses import MessageStatus
from tests.factories import AddressFactory
from tests.support.certificates import authority
from tests.support.processes import Processes, until
from tests.support.queued import queue, thread_with_relay, wait_for
from tests.support.smtp_server import SmtpServer
from tests.support.webhook_rows import (
    endpoint_at,
    events_of_one,
    on_its_way,
    rung_by_endpoint,
)
from tests.support.webhook_sink import WebhookSink
from webhooks.models import WebhookAttempt, WebhookDispatch

pytestmark = pytest.mark.django_db(transaction=True)


def test_mail_and_other_receivers_get_theirs_while_dead_receivers_hang(
    crew: Processes, relay: SmtpServer, tmp_path: Path
) -> None:
    # Given a worker whose receivers never answer, as many as it ever waits for
    trusted = tmp_path / "trusted.pem"
    trusted.write_text(authority().pem)
    identity = AddressFactory.create().identity
    events = events_of_one(identity, 5)
    succeeded = WebhookAttempt.objects.filter(status="succeeded")
    with WebhookSink() as sink:
        good = endpoint_at(sink.url("/ok"), tenant=identity.tenant)
        on_its_way(good, events[0])
        worker = crew.worker(threads=16, SSL_CERT_FILE=str(trusted))
        until(succeeded.exists, what="the first event")
        for n in range(9):
            endpoint = endpoint_at(sink.url(f"/dead/{n}"), tenant=identity.tenant)
            for event in events:
                on_its_way(endpoint, event)
        until(lambda: sink.open.total() == 4, what="four calls that hang")

        # When mail is accepted, and more events are due for a receiver that answers
        queue(10, thread_with_relay(relay))
        for event in events[1:]:
            on_its_way(good, event)

        # Then all of it leaves while those calls still hang
        wait_for(MessageStatus.SUBMITTED, 10)
        until(lambda: succeeded.count() == len(events), what="the other events")
        assert sink.open.total() == 4
        assert sum(seen.path.startswith("/dead") for seen in sink.received) == 4

        # And the worker, asked to end, gives back what waits and ends what it began
        worker.signal(SIGTERM)
        until(lambda: not rung_by_endpoint(), what="the rows that wait given back")
        sink.revived.set()
        worker.process.wait(timeout=20)
    assert succeeded.count() == len(events) + 4
    pending = WebhookDispatch.objects.filter(state="pending", attempts=0)
    assert pending.count() == 9 * len(events) - 4
