"""Everything is killed, and started again, at the intervals of a real deployment."""

import time
from collections import Counter
from pathlib import Path

import pytest

from delivery.models import Attempt, OutboundState
from mailboxes.models import Identity, Message
from tests.support.bulk_queue import queue_in_bulk
from tests.support.processes import Processes, until
from tests.support.sending import Client, open_test_account, settle
from tests.support.smtp_server import SmtpServer
from tests.support.times import SHORT

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


def test_r42_workers_killed_as_they_begin_leave_each_send_an_end(
    crew: Processes, relay: SmtpServer, sender: Client, tmp_path: Path
) -> None:
    """R42: all of them, 50 ms after the first claim; then one is started again.

    With a fifth of its 500 sends, half of them to a relay that counts.
    """
    # Given two workers that begin with 100 sends at the same moment
    go, pace = tmp_path / "go", {**SHORT, "PM_REDISPATCH_SECONDS": 60}
    doomed = [
        crew.worker(threads=8, planted=f"deliver.rung=await:{go}", **pace)
        for _ in range(2)
    ]
    simulated = Identity.objects.get(
        id=open_test_account(base_url=sender.base_url).account.identity_id
    )
    sender.accept_many(f"begun-{n}" for n in range(50))
    queue_in_bulk(simulated, 50, recipients=("jo@simulator.invalid",))
    go.touch()
    until(Attempt.objects.exists, what="the first claim")

    # When they are killed in the midst of it
    time.sleep(0.05)
    for worker in doomed:
        worker.kill()
    begun = Attempt.objects.count()
    crew.worker(threads=16, **pace)

    # Then each has an end within a minute, and what was in a call is in doubt
    until(lambda: not OutboundState.objects.exists(), seconds=60, what="the end of all")
    settle(sender, relays=[relay])
    found = Counter(Message.objects.filter(direction="outbound").values_list("status"))
    assert sum(found.values()) == Attempt.objects.count() == 100
    assert found["uncertain",] <= begun < 100
