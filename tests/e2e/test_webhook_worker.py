"""A worker process and a receiver: an event that is due arrives, over verified TLS."""

from pathlib import Path

import pytest

from tests.factories import AddressFactory
from tests.support.certificates import authority
from tests.support.processes import Processes, until
from tests.support.times import SHORT
from tests.support.webhook_rows import endpoint_at, events_of_one, on_its_way
from tests.support.webhook_sink import WebhookSink
from webhooks.models import WebhookAttempt

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_worker_delivers_what_is_due_beside_a_receiver_that_never_answers(
    crew: Processes, tmp_path: Path
) -> None:
    # Given a worker that trusts the receiver's authority, and a row for each endpoint
    trusted = tmp_path / "trusted.pem"
    trusted.write_text(authority().pem)
    identity = AddressFactory.create().identity
    (event,) = events_of_one(identity)
    with WebhookSink() as sink:
        for path in ("/dead/1", "/dead/2", "/ok"):
            endpoint = endpoint_at(sink.url(path), tenant=identity.tenant)
            on_its_way(endpoint, event)
        worker = crew.worker(**{**SHORT, "SSL_CERT_FILE": str(trusted)})

        # When it runs, the event comes to who answers, and to the others as well
        until(lambda: len(sink.received) == 3, what="three requests")
        done = WebhookAttempt.objects.filter(status="succeeded")
        until(done.exists, what="the record of the one that is answered")
        assert {seen.id for seen in sink.received} == {event.id}

        # Then, asked to end, it waits for those that are under way
        sink.revived.set()
        worker.end()
    assert done.count() == 3
