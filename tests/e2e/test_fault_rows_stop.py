"""Everything is killed, and started again, at the intervals of a real deployment."""

import time
from pathlib import Path

import pytest

from delivery.models import Attempt, OutboundState
from tests.support.processes import Processes, until
from tests.support.sending import Client, open_test_account, settle
from tests.support.smtp_server import SmtpServer

pytestmark = pytest.mark.django_db(transaction=True)


def test_two_hundred_rung_rows_of_a_killed_worker_are_all_claimed_within_20_s(
    crew: Processes, relay: SmtpServer, sender: Client, tmp_path: Path
) -> None:
    """Row 43: ``memory://``, ``kill -9`` with 200 rung rows, default intervals.

    Half of them go to a relay that counts, half to the simulator.
    """
    # Given 200 sends that are rung in a worker which dies with its broker
    never = tmp_path / "never"
    doomed = crew.worker(threads=16, planted=f"deliver.rung=await:{never}")
    simulated = open_test_account(base_url=sender.base_url)
    sender.accept_many(f"relay-{n}" for n in range(100))
    simulated.accept_many(
        (f"simulator-{n}" for n in range(100)), to=["jo@simulator.invalid"]
    )
    until(
        lambda: OutboundState.objects.filter(rung_at__isnull=False).count() == 200,
        what="200 rung rows",
    )
    doomed.kill()
    assert not Attempt.objects.exists()

    # When it is started again
    crew.worker(threads=16)
    started = time.monotonic()
    until(lambda: Attempt.objects.count() >= 200, seconds=25, what="200 claims")

    # Then all are claimed in time, and sent once
    assert time.monotonic() - started < 20
    copies = settle(sender, relays=[relay])
    assert len(copies) == 100
    until(
        lambda: not OutboundState.objects.exists(), what="the end of all 200 messages"
    )
    assert Attempt.objects.filter(result="accepted").count() == 200
    assert Attempt.objects.count() == 200
