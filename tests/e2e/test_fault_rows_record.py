"""A part of a message has been sent, and then something goes wrong with the rest."""

import pytest

from delivery.models import Delivery, OutboundState
from delivery.services import resolve
from mailboxes.services import pause_identity
from tests.support.processes import Processes, until
from tests.support.sending import Client, settle, status_of
from tests.support.smtp_script import Script
from tests.support.smtp_server import SmtpServer
from tests.support.times import SHORT

pytestmark = pytest.mark.django_db(transaction=True)

BOTH = ("a@example.net", "b@example.net")
TAKES_A_DEFERS_B = {"rcpt": {"b@example.net": "451 4.2.0 later"}}
ONE_COPY_FOR_A = {("partly", "a@example.net"): 1}


def deliveries_of(message_id: str) -> dict[str, str]:
    """Return the status of each recipient."""
    found = Delivery.objects.filter(message__public_id=message_id)
    return dict(found.values_list("address", "status"))


def test_a_retry_whose_worker_dies_leaves_the_rest_uncertain_and_resolvable(
    crew: Processes, relay: SmtpServer, sender: Client
) -> None:
    """Row 36, first run: the relay takes A, defers B; the retry's worker dies."""
    # Given a relay that takes A and defers B, and then kills who tries B again
    relay.follow(Script(connections=[TAKES_A_DEFERS_B, {"rcpt": "kill"}]))
    worker = crew.worker(threads=1, **SHORT)
    message = sender.accept("partly", to=BOTH)
    until(lambda: not worker.is_alive, what="the death of the retry's worker")

    # When the alarm has ended its claim
    crew.worker(threads=1, **SHORT)
    assert settle(sender, relays=[relay]) == ONE_COPY_FOR_A

    # Then only the rest is in doubt, and a person can settle it
    assert status_of(message) == "uncertain"
    assert deliveries_of(message) == {
        "a@example.net": "submitted",
        "b@example.net": "uncertain",
    }
    resolve(message, outcome="not_sent", actor_user_id="ada")
    assert status_of(message) == "submitted"
    assert deliveries_of(message)["b@example.net"] == "failed"
    assert settle(sender, relays=[relay]) == ONE_COPY_FOR_A
    assert len(relay.connections) == 2


def test_a_pause_before_the_retry_fails_the_rest_and_leaves_nothing_queued(
    crew: Processes, relay: SmtpServer, sender: Client
) -> None:
    """Row 36, second run: the relay takes A, defers B; the identity is paused."""
    relay.follow(Script(connections=[TAKES_A_DEFERS_B]))
    crew.worker(threads=1, **{**SHORT, "PM_BACKOFF_SCALE": 0.03})
    message = sender.accept("partly", to=BOTH)
    until(
        lambda: OutboundState.objects.filter(
            message__public_id=message, retry_at__isnull=False
        ).exists(),
        what="the back-off of the rest",
    )
    assert pause_identity(sender.account.identity_id)

    assert settle(sender, relays=[relay]) == ONE_COPY_FOR_A
    assert status_of(message) == "submitted"
    assert deliveries_of(message) == {
        "a@example.net": "submitted",
        "b@example.net": "failed",
    }
    assert len(relay.connections) == 1
