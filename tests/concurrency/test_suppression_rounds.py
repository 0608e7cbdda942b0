"""A round of provider suppressions against the claim alarm: one of them wins."""

from datetime import timedelta
from functools import partial

import pytest

from delivery.models import Attempt, OutboundState
from outbound import claims, rounds
from outbound.alarms import sweep_claims
from outbound.claims import Claim
from outbound.transports.base import RecipientSuppressed
from suppressions.models import Suppression
from tests.services.conftest import assert_units_add_up, statuses
from tests.support.cloudflare import configured, queued
from tests.support.cloudflare_server import CloudflareServer
from tests.support.racers import Racers

pytestmark = pytest.mark.django_db(transaction=True)
A, B = "a@example.net", "b@example.net"


def test_a_round_and_the_claim_alarm_at_once_agree_on_one_end(racers: Racers) -> None:
    refusal = RecipientSuppressed("E_RECIPIENT_SUPPRESSED", "", {B: "manual"})
    renewed = 0
    for _ in range(40):
        message = queued(A, B)
        with CloudflareServer() as server, configured(server):
            claim = claims.claim(message.public_id)
        assert claim is not None
        # Given a claim that has just run out
        OutboundState.objects.filter(message=message).update(
            claimed_at=message.received_at - timedelta(seconds=301)
        )

        rest, *others = racers.at_once(
            [partial(rounds.next_round, claim, refusal), *[sweep_claims] * 3]
        )

        # Then the rest may be called, or all of it is in doubt and nobody calls
        assert not [one for one in (rest, *others) if isinstance(one, Exception)]
        attempts = Attempt.objects.filter(message=message)
        if rest is None:
            assert statuses(message) == {A: "uncertain", B: "uncertain"}
            assert attempts.count() == 1
        else:
            assert isinstance(rest, Claim)
            assert statuses(message) == {A: "queued", B: "suppressed"}
            assert attempts.filter(result__isnull=True).count() == 1
            renewed += 1
        assert_units_add_up(message)
    assert Suppression.objects.count() == renewed
