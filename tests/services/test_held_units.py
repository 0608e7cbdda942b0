"""What is held of a tenant's quota is what the recipients who still wait will cost."""

import pytest

from core.clock import database_now
from delivery.models import OutboundState
from outbound import claims
from outbound.rounds import next_round
from outbound.transports.base import (
    RecipientRefusal,
    RecipientSuppressed,
    RetryClass,
    RetryLater,
)
from quota.models import Hold
from suppressions.services import NewSuppression, suppress
from suppressions.statuses import SuppressionReason
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


def test_what_was_held_for_who_is_suppressed_at_the_claim_is_given_back_by_it() -> None:
    # Given a recipient who is suppressed after the submit
    message = QueuedMessageFactory.create(recipients=(A, B))
    found = NewSuppression(B, SuppressionReason.COMPLAINT)
    suppress(
        [found],
        tenant_id=message.tenant_id,
        source_message_id=message.public_id,
        now=database_now(),
    )

    # When a worker claims the message, and goes no further
    assert claims.claim(message.public_id) is not None

    # Then a unit is held for the one who waits
    assert statuses(message) == {A: "queued", B: "suppressed"}
    assert Hold.objects.get().units == 1
    assert_units_add_up(message)


def test_what_was_held_for_who_a_provider_suppresses_is_given_back_by_the_round() -> (
    None
):
    # Given a call that was refused for one of two recipients
    message = queued(A, B)
    with CloudflareServer() as server, configured(server):
        claim = claims.claim(message.public_id)
    assert claim is not None

    # When the worker has written that down, and goes no further
    refusal = RecipientSuppressed("550", "no", {B: "manual"})
    assert next_round(claim, refusal) is not None

    # Then a unit is held for the one who waits
    assert statuses(message) == {A: "queued", B: "suppressed"}
    assert Hold.objects.get().units == 1
    assert_units_add_up(message)
