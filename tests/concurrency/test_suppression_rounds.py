"""A round of provider suppressions against the claim alarm: one of them wins."""

from datetime import timedelta
from functools import partial

import pytest
from django.test import override_settings

from delivery.models import Attempt, OutboundState
from outbound import claims, rounds
from outbound.alarms import sweep_claims
from outbound.claims import Claim
from outbound.transports.base import RecipientSuppressed
from suppressions.models import Suppression
from tests.services.conftest import assert_units_add_up, statuses
from tests.support.cloudflare import queued, thread_of_cloudflare
from tests.support.racers import Racers

pytestmark = pytest.mark.django_db(transaction=True)
A = "a@example.net"


def test_a_round_and_the_claim_alarm_at_once_agree_on_one_end(racers: Racers) -> None:
    renewed = 0
    thread = thread_of_cloudflare()
    for n in range(20):
        other = f"b{n}@example.net"
        refusal = RecipientSuppressed("E_SUPPRESSED", "", {other: "manual"})
        message = queued(A, other, thread=thread)
        with override_settings(PM_CF_ACCOUNT_ID="account"):
            claim = claims.claim(message.public_id)
        assert claim is not None
        # Given a claim that has just run out
        OutboundState.objects.filter(message=message).update(
            claimed_at=message.received_at - timedelta(seconds=301)
        )

        rest, *swept = racers.at_once(
            [partial(rounds.next_round, claim, refusal), *[sweep_claims] * 3]
        )

        # Then the rest may be called, or all of it is in doubt and nobody calls
        assert not [one for one in (rest, *swept) if isinstance(one, Exception)]
        attempts = Attempt.objects.filter(message=message)
        if rest is None:
            assert statuses(message) == {A: "uncertain", other: "uncertain"}
            assert attempts.count() == 1
        else:
            assert isinstance(rest, Claim)
            assert statuses(message) == {A: "queued", other: "suppressed"}
            assert attempts.filter(result__isnull=True).count() == 1
            renewed += 1
    assert_units_add_up(message)
    assert Suppression.objects.count() == renewed
