"""Row 39, over HTTP: a provider that drips holds up no other domain's mail."""

from datetime import timedelta
from functools import partial

import pytest

from delivery.models import Attempt
from outbound import slots
from outbound.deliver import deliver
from outbound.slots import Slots
from tests.support.cloudflare import configured, queued, shorten, thread_of_cloudflare
from tests.support.cloudflare_server import CloudflareServer
from tests.support.queued import queue, thread_with_relay
from tests.support.racers import Racers
from tests.support.smtp_server import SmtpServer

pytestmark = pytest.mark.django_db(transaction=True)
SECONDS = 1.5


def test_another_domains_mail_leaves_while_a_provider_drips(
    racers: Racers, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given seven threads with mail for a provider that drips, and one with another's
    process = Slots(4, places=2)
    monkeypatch.setattr(slots, "process_slots", lambda: process)
    shorten(monkeypatch, SECONDS)
    thread = thread_of_cloudflare()
    dripped = [queued(thread=thread) for _ in range(7)]
    with SmtpServer() as relay, CloudflareServer(*["drip"] * 7) as server:
        (other,) = queue(1, thread_with_relay(relay))
        with configured(server):
            racers.at_once(
                [partial(deliver, message.public_id) for message in (*dripped, other)]
            )

        # Then it has left at once, and each call that began has ended
        assert relay.copies.total() == 1
        left = Attempt.objects.get(provider="smtp").finished_at
        assert left is not None
        assert left - other.received_at < timedelta(seconds=10)
        assert server.connections == Attempt.objects.count() - 1
    other.refresh_from_db()
    assert other.status == "submitted"
    ends = set(Attempt.objects.filter(provider="cloudflare").values_list("result"))
    assert ends == {("uncertain",)}
    assert process.held == 0
