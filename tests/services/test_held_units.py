"""What is held of a tenant's quota is what the recipients who still wait will cost."""

import pytest

from delivery.models import OutboundState
from outbound import claims, rounds
from outbound.transports.base import (
    RecipientRefusal,
    RecipientSuppressed,
    RetryClass,
    RetryLater,
)
from quota.models import Hold
from tests.factories import QueuedMessageFactory
from tests.services.conftest import assert_units_add_up, statuses
from tests.support.cloudflare import configured, queued
from tests.support.cloudflare_server import CloudflareServer
from tests.support.scripted import ScriptedTransport, work

pytestmark = pytest.mark.django_db
A, B, C = "a@example.net", "b@example.net", "c@example.net"


def test_what_was_held_for_a_refused_recipient_is_given_back_at_once(
    scripted: ScriptedTransport,
) -> None:
    # Given two recipients refused for good by a call that must be made again
    message = QueuedMessageFactory.create(recipients=(A, B, C))
    refused = (RecipientRefusal(A, "550", "no"), RecipientRefusal(B, "550", "no"))
    scripted.answers = [RetryLater(RetryClass.RELAY, "451", refused=refused)]

    work(message.public_id, scripted)

    # Then one unit is held, for the one who waits, as long as the wait and more
    hold, state = Hold.objects.get(), OutboundState.objects.get()
    assert statuses(message) == {A: "rejected", B: "rejected", C: "queued"}
    assert hold.units == 1
    assert state.retry_at is not None
    assert hold.expires_at > state.retry_at
    assert_units_add_up(message)


def test_what_was_held_for_a_suppressed_recipient_is_given_back_with_the_round() -> (
    None
):
    """Whether or not the worker lives to record what became of the rest."""
    # Given a claim on three, of whom the provider suppresses two
    message = queued(A, B, C)
    with CloudflareServer() as server, configured(server):
        claim = claims.claim(message.public_id)
    assert claim is not None
    assert Hold.objects.get().units == 3

    # When they are set aside, and the next round begins
    found = {B: "manual", C: "manual"}
    refusal = RecipientSuppressed("recipient_suppressed", "no", found)
    assert rounds.next_round(claim, refusal) is not None

    # Then one unit is held, for the one who still waits
    assert statuses(message) == {A: "queued", B: "suppressed", C: "suppressed"}
    assert Hold.objects.get().units == 1
    assert_units_add_up(message)
