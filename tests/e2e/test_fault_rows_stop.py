"""Everything is killed, and started again, at the intervals of a real deployment."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from delivery.models import Attempt, OutboundState
from mailboxes.models import Message
from tests.support.processes import Processes, until
from tests.support.sending import Client, settle
from tests.support.smtp_server import SmtpServer

pytestmark = pytest.mark.django_db(transaction=True)


def test_two_hundred_rung_rows_of_a_killed_worker_are_all_claimed_within_20_s(
    crew: Processes,
    relay: SmtpServer,
    account: Callable[[SmtpServer], Client],
    tmp_path: Path,
) -> None:
    """Row 43: ``memory://``, ``kill -9`` with 200 rung rows, default intervals."""
    # Given 200 sends that are rung in a worker which dies with its broker
    never = tmp_path / "never"
    doomed = crew.worker(threads=16, planted=f"deliver.rung=await:{never}")
    clients = [account(relay), account(relay)]
    for client in clients:
        client.accept_many(f"{client.account.tenant_id}-{n}" for n in range(100))
    until(
        lambda: OutboundState.objects.filter(rung_at__isnull=False).count() == 200,
        what="200 rung rows",
    )
    doomed.kill()
    assert not Attempt.objects.exists()

    # When it is started again
    crew.worker(threads=16)
    started = time.monotonic()
    until(lambda: Attempt.objects.count() == 200, seconds=25, what="200 claims")

    # Then all are claimed in time, and sent once
    assert time.monotonic() - started < 20
    copies = settle(*clients, relays=[relay])
    assert len(copies) == 200
    assert set(Message.objects.values_list("status", flat=True)) == {"submitted"}
