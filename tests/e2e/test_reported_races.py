"""Races that users of other systems reported, between processes of our own.

R38, R39 and R40: each process is held at the instant that matters, between its read and
its write or just before its commit, while another one does what was reported.
"""

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest

from core.clock import database_now
from delivery.models import Attempt
from mailboxes.models import Event, Message
from pylota.provisioning import provision_platform_key
from pylota_client import Client as Reader
from pylota_client import Event as FeedEvent
from quota.models import Allowance, Counter, Hold
from tests.support.gates import Gate, wait_for_a_lock_that_is_waited_for
from tests.support.processes import Processes, Running, until
from tests.support.sending import Client, open_account, settle, status_of
from tests.support.smtp_server import SmtpServer
from tests.support.times import SHORT

pytestmark = pytest.mark.django_db(transaction=True)

PATIENT: Final = {**SHORT, "PM_CLAIM_SECONDS": 300}
"""A worker whose own alarm finds no claim too old."""

EAGER_SECONDS: Final = 1.0
EAGER: Final = {**SHORT, "PM_CLAIM_SECONDS": EAGER_SECONDS}
"""A worker whose alarm finds every claim too old that another one has held a second."""

ONLY_THE_HOLD_SWEEP: Final = {
    "beat_schedule": {"hold sweep": {"task": "quota.sweep_holds", "schedule": 0.3}}
}


def overdue_claim(crew: Processes, sender: Client, answered: Gate) -> str:
    """Return a message whose worker has its answer, and has not recorded it in time."""
    crew.worker(threads=1, planted=answered.plan, **PATIENT)
    message = sender.accept("raced")
    answered.wait()
    attempt = Attempt.objects.get(message__public_id=message)
    ends = attempt.claimed_at + timedelta(seconds=EAGER_SECONDS)
    until(lambda: database_now() > ends, what="the end of the claim's time")
    return message


def assert_outcome_stands(message_id: str, *, flags: list[str]) -> None:
    """Assert that message and attempt say what the worker recorded."""
    message = Message.objects.get(public_id=message_id)
    assert (message.status, message.flags) == ("submitted", flags)
    attempt = Attempt.objects.get(message=message)
    assert (attempt.result, attempt.phase) == ("accepted", "answered")


def test_r38_an_outcome_recorded_after_the_alarm_has_listed_the_claim_stands(
    crew: Processes, relay: SmtpServer, sender: Client, tmp_path: Path
) -> None:
    """R38: the alarm of one worker stands between its list and its transaction."""
    # Given a call that was answered, and another worker's alarm that found its claim
    answered = Gate(tmp_path, "deliver.answered")
    listed = Gate(tmp_path, "claim_alarm.listed")
    message = overdue_claim(crew, sender, answered)
    alarmed = crew.worker(planted=listed.plan, **EAGER)
    listed.wait()

    # When the outcome is recorded, and then the alarm goes on to its end
    answered.open()
    until(lambda: status_of(message) == "submitted", what="the record")
    listed.open()
    listed.wait(times=2)

    # Then the outcome stands, and the alarm has said nothing
    assert_outcome_stands(message, flags=[])
    assert not Event.objects.filter(type="message.uncertain").exists()
    assert sum(settle(sender, relays=[relay]).values()) == 1
    assert "claim_alarm_failed" not in alarmed.output
    assert answered.came[0] != listed.came[0]


def test_r38_an_outcome_recorded_while_the_alarm_holds_the_row_stands(
    crew: Processes, relay: SmtpServer, sender: Client, tmp_path: Path
) -> None:
    """R38: the alarm stands under its locks; the record waits, and then settles."""
    # Given another worker's alarm that has looked at the claim and holds its row
    answered = Gate(tmp_path, "deliver.answered")
    judged = Gate(tmp_path, "claim_alarm.judged")
    message = overdue_claim(crew, sender, answered)
    alarmed = crew.worker(planted=judged.plan, **EAGER)
    judged.wait()

    # When the outcome comes to be recorded meanwhile, and then the alarm goes on
    answered.open()
    wait_for_a_lock_that_is_waited_for()
    assert status_of(message) == "queued"
    judged.open()

    # Then the outcome is what stands in the end
    until(lambda: status_of(message) == "submitted", what="the record")
    assert_outcome_stands(message, flags=["reconciled"])
    assert Event.objects.filter(type="message.uncertain").count() == 1
    assert sum(settle(sender, relays=[relay]).values()) == 1
    assert len(judged.came) == 1
    assert "claim_alarm_failed" not in alarmed.output
    assert answered.came[0] != judged.came[0]


def sweeper(crew: Processes, *gates: Gate) -> Running:
    """Start a worker of one thread whose clock does nothing but to sweep holds."""
    return crew.worker(
        threads=1,
        planted=";".join(gate.plan for gate in gates),
        arguments=("--beat-thread",),
        PM_TEST_CELERY=json.dumps(ONLY_THE_HOLD_SWEEP),
        **PATIENT,
    )


def expire_hold(message_id: str) -> None:
    """Let the time of a send's hold be over."""
    past = database_now() - timedelta(seconds=1)
    assert Hold.objects.filter(ref=message_id).update(expires_at=past) == 1


def used_by(sender: Client) -> tuple[int, int, int]:
    """Return the units that are used and held, and the sends that were counted."""
    tenant = sender.account.tenant_id
    counted = Counter.objects.filter(tenant=tenant, metric="usage:sends")
    allowance = Allowance.objects.get(tenant=tenant, feature="sends")
    return allowance.used, allowance.held, sum(counted.values_list("value", flat=True))


def assert_closed_and_charged_once(
    sender: Client, message: str, sweeping: Running, recording: Running
) -> None:
    """Assert that the settle alone closed the hold, once the sweep is over."""
    until(lambda: status_of(message) == "submitted", what="the record")
    begun = len(sweeping.tasks)  # the next one begins when the held one has ended
    until(lambda: len(sweeping.tasks) > begun + 1, what="sweeps after the settle")
    assert used_by(sender) == (1, 0, 1)
    assert not Hold.objects.exists()
    assert "quota_hold_expired" not in sweeping.output
    assert "quota_consumed_without_hold" not in recording.output
    assert "hold_sweep_failed" not in sweeping.output


def test_r39_a_hold_that_expires_first_while_its_settle_waits_is_closed_once(
    crew: Processes, relay: SmtpServer, sender: Client, tmp_path: Path
) -> None:
    """R39, row 12: the sweep stands under its locks, and the settle waits for them."""
    # Given an answer that is not recorded, and a sweep that has judged its hold
    answered = Gate(tmp_path, "deliver.answered")
    judged = Gate(tmp_path, "hold_sweep.judged")
    recording = crew.worker(threads=1, planted=answered.plan, **PATIENT)
    message = sender.accept("expires-first")
    answered.wait()
    expire_hold(message)
    sweeping = sweeper(crew, judged)
    judged.wait()

    # When the record comes to its settle meanwhile
    answered.open()
    wait_for_a_lock_that_is_waited_for()
    assert used_by(sender) == (0, 1, 0)
    judged.open()

    # Then the hold is closed once, and what is used moves once
    assert_closed_and_charged_once(sender, message, sweeping, recording)
    assert sum(settle(sender, relays=[relay]).values()) == 1
    assert answered.came[0] != judged.came[0]


def test_r39_a_hold_that_settles_first_while_its_sweep_waits_is_closed_once(
    crew: Processes, relay: SmtpServer, sender: Client, tmp_path: Path
) -> None:
    """R39, row 12: the sweep has listed the hold, which a record settles meanwhile."""
    # Given an answer that is not recorded, and a sweep that has listed its hold
    answered = Gate(tmp_path, "deliver.answered")
    written = Gate(tmp_path, "record.written")
    listed = Gate(tmp_path, "hold_sweep.listed")
    plan = f"{answered.plan};{written.plan}"
    recording = crew.worker(threads=1, planted=plan, **PATIENT)
    message = sender.accept("settles-first")
    answered.wait()
    expire_hold(message)
    sweeping = sweeper(crew, listed)
    listed.wait()

    # When the record has settled it and stands before its commit, and the sweep goes on
    answered.open()
    written.wait()
    listed.open()
    wait_for_a_lock_that_is_waited_for()
    assert used_by(sender) == (0, 1, 0)
    written.open()

    # Then the hold is closed once, and what is used moves once
    assert_closed_and_charged_once(sender, message, sweeping, recording)
    assert sum(settle(sender, relays=[relay]).values()) == 1
    assert written.came[0] != listed.came[0]


class Follower:
    """Reads the feed over HTTP to its end, again and again, and keeps what it saw."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self.seen: list[FeedEvent] = []

    def read(self) -> None:
        """Go on after the last event, to the end."""
        after = self.seen[-1].id if self.seen else None
        self.seen.extend(self._reader.events(after_id=after))

    def sent(self) -> list[str]:
        """Read, and return the messages that it was told are sent."""
        self.read()
        found = [event for event in self.seen if event.type == "message.sent"]
        return [event.data["message"]["id"] for event in found]


@pytest.fixture
def follower(web: Running) -> Iterator[Follower]:
    """A follower of everybody's events."""
    with Reader(web.url, provision_platform_key()) as reader:
        yield Follower(reader)


def test_r40_an_event_stored_first_and_committed_last_is_seen_once_over_http(
    crew: Processes, follower: Follower, web: Running, relay: SmtpServer, tmp_path: Path
) -> None:
    """R40: two workers record; a reader reads ``/v1/events`` to its end in between."""
    # Given two workers, each with an answer to record, for two tenants
    senders = [open_account(relay, base_url=web.url) for _ in range(2)]
    first, second = (Gate(tmp_path, "deliver.answered", name) for name in "ab")
    written = Gate(tmp_path, "record.written")
    crew.worker(threads=1, planted=f"{first.plan};{written.plan}", **PATIENT)
    crew.worker(threads=1, planted=second.plan, **PATIENT)
    messages = [sender.accept(f"told-{n}") for n, sender in enumerate(senders)]
    first.wait()
    second.wait()

    # When one has stored its event and stands before its commit, and the other commits
    first.open()
    written.wait()
    second.open()
    until(lambda: len(follower.sent()) == 1, what="the event of the second")
    # And the reader is at its end before the first one commits
    between = follower.sent()
    written.open()
    until(lambda: len(follower.sent()) == 2, what="the event of the first")

    # Then it has seen both, and each event once, in the order of the feed
    late, early = follower.sent()
    assert between == [late]
    assert {late, early} == set(messages)
    told = Event.objects.order_by("position").values_list("id", flat=True)
    assert [event.id for event in follower.seen] == list(told)
    # (though the one that it saw last was stored before the other)
    arrivals = dict(
        Event.objects.filter(type="message.sent").values_list(
            "payload__data__message__id", "arrival"
        )
    )
    assert arrivals[early] < arrivals[late]
    assert written.came[0] == first.came[0] != second.came[0]
    assert sum(settle(*senders, relays=[relay]).values()) == 2
