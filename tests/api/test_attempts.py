"""GET …/messages/{id}/attempts: how far each call got, and what was said."""

from datetime import timedelta

import pytest

from core import clock
from outbound import claims
from outbound.transports.base import Phase, RetryClass, RetryLater
from tests.support.api import ApiClient, booking
from tests.support.scripted import ScriptedTransport, accepted, work

pytestmark = pytest.mark.django_db


def test_each_call_says_its_phase_its_code_and_the_transports_words_cut_to_512(
    api: ApiClient,
) -> None:
    sent = api.send(booking()).json()["id"]
    refusal = RetryLater(RetryClass.RELAY, "451", "451 4.7.1 " + "later " * 200)

    # Given a call that was put off, one that was taken, and one under way in between
    work(sent, ScriptedTransport([refusal]))
    clock.offset += timedelta(minutes=2)
    claim = claims.claim(sent)
    assert claim is not None
    claim.outgoing.announce(Phase.SENDING)
    under_way = api.get(f"{api.path}/{sent}/attempts").json()["data"][1]
    claims.record(claim, accepted(claim.outgoing))

    first, second = api.get(f"{api.path}/{sent}/attempts").json()["data"]

    assert (first["result"], first["code"]) == ("retry", "451")
    assert first["phase"] == "connecting"
    assert first["detail"] == refusal.detail[:512]
    assert (under_way["phase"], under_way["result"]) == ("sending", None)
    assert under_way["finished_at"] is None
    assert (second["phase"], second["result"]) == ("answered", "accepted")
    assert "jo@example.net" not in str([first, second])
