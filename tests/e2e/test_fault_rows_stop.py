"""Everything is killed, and started again, at the intervals of a real deployment."""

import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from delivery.models import Attempt, OutboundState
from mailboxes.models import Message
from tests.support.gates import Gate, wait_for_the_end_of_every_transaction
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


def accept_at_once(senders: list[Client], number: int) -> None:
    """Have a number of sends accepted from each sender, all senders at once."""
    with ThreadPoolExecutor(len(senders)) as pool:
        accepting = [
            pool.submit(sender.accept_many, [f"begun-{who}-{n}" for n in range(number)])
            for who, sender in enumerate(senders)
        ]
        for one in accepting:
            one.result()


def test_r42_workers_killed_as_they_begin_leave_each_send_an_end(
    crew: Processes,
    account: Callable[[SmtpServer], Client],
    relay: SmtpServer,
    tmp_path: Path,
) -> None:
    """R42: 500 sends; all workers killed 50 ms after the first claim, then restarted.

    With a claim age of 6 s instead of 300.
    """
    # Given two workers that begin with 500 sends of five domains at the same moment
    rung = Gate(tmp_path, "deliver.rung")
    pace = {**SHORT, "PM_REDISPATCH_SECONDS": 60, "PM_SMTP_PARALLEL": 8}
    senders = [account(relay) for _ in range(5)]
    accept_at_once(senders, 100)
    doomed = [crew.worker(threads=8, planted=rung.plan, **pace) for _ in range(2)]
    until(
        lambda: set(rung.came) == {str(worker.pid) for worker in doomed},
        what="sends in the hands of both workers",
    )
    rung.open()
    until(Attempt.objects.exists, what="the first claim")

    # When both are killed 50 ms later, with calls under way, and started again
    time.sleep(0.05)
    for worker in doomed:
        worker.kill()
    wait_for_the_end_of_every_transaction()
    begun = Attempt.objects.count()
    in_doubt = Attempt.objects.filter(result__isnull=True).count()
    started = time.monotonic()
    for _ in doomed:
        crew.worker(threads=8, **pace)

    # Then each has an end within a minute, with a copy at the relay if it was sent
    copies = settle(*senders, relays=[relay], seconds=60)
    assert time.monotonic() - started < 60
    found = Counter(Message.objects.filter(direction="outbound").values_list("status"))
    assert found["submitted",] + found["uncertain",] == 500
    assert 500 - begun <= found["submitted",] <= len(copies)

    # And only what was in a call when they died is in doubt, and was not called again
    assert found["uncertain",] == in_doubt > 0
    assert begun < 500
    assert Attempt.objects.count() == 500
