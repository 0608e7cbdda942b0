"""Workers die, freeze and lose their database around the claim and the call."""

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from delivery.models import Attempt
from delivery.services import resolve
from mailboxes.models import Event, Identity, Message, Thread
from tests.support.answering import received
from tests.support.database import database_url
from tests.support.peers import process_of_peer
from tests.support.pg_proxy import Fault, PgProxy
from tests.support.processes import Processes, until
from tests.support.sending import Client, copies_at, settle, status_of
from tests.support.smtp_script import Script
from tests.support.smtp_server import Connection, SmtpServer
from tests.support.times import ALARM, CLAIM, SHORT

pytestmark = pytest.mark.django_db(transaction=True)

STAGES = ("connect", "greeting", "ehlo", "auth", "mail", "rcpt", "data", "body")
STARTTLS_STAGES = ("starttls", "tls")
HANDED_OVER = ("dot", "quit")


def standing_at(*stages: str, tls: str = "implicit") -> Script:
    """Return a script whose connections each stand still at a stage of their own."""
    return Script(tls=tls, connections=[{stage: "hook:there;hang"} for stage in stages])


def lines_of(path: Path) -> int:
    """Return how often a planted ``mark`` was reached."""
    return len(path.read_text().splitlines()) if path.exists() else 0


def test_a_worker_killed_in_its_calls_leaves_each_of_them_uncertain(
    crew: Processes, account: Callable[[SmtpServer], Client]
) -> None:
    """Row 7, R07, must hold 4: SIGKILL from the wire, with a call at each stage.

    The relay finds the process that holds the sockets, once one call stands at every
    stage: from the connection to the answer after the final dot.
    """
    stages = (*STAGES, *STARTTLS_STAGES, *HANDED_OVER)
    reached = threading.Barrier(len(stages))

    def kill_when_all_are_there(seen: Connection) -> None:
        if reached.wait(timeout=20) == 0:
            os.kill(process_of_peer(seen.peer[1]), signal.SIGKILL)

    hooks = {"there": kill_when_all_are_there}
    with (
        SmtpServer(standing_at(*STAGES, *HANDED_OVER), hooks=hooks) as relay,
        SmtpServer(standing_at(*STARTTLS_STAGES, tls="starttls"), hooks=hooks) as plain,
    ):
        # Given calls that stand still at every stage, and a worker killed in them all
        at_relay, at_plain = account(relay), account(plain)
        at_relay.accept_many(f"tls-{n}" for n in range(len(STAGES + HANDED_OVER)))
        at_plain.accept_many(f"starttls-{n}" for n in range(len(STARTTLS_STAGES)))
        doomed = crew.worker(
            threads=16,
            **{
                **SHORT,
                "PM_WORKER_THREADS": 64,
                "PM_SMTP_PARALLEL": 30,
                "PM_SMTP_CONNECT_SECONDS": 20,
                "PM_SMTP_COMMAND_SECONDS": 20,
                "PM_SMTP_FINAL_SECONDS": 20,
                "PM_CLAIM_SECONDS": 25,
            },
        )
        until(lambda: not doomed.is_alive, seconds=25, what="the worker's death")
        assert doomed.process.returncode == -signal.SIGKILL

        # When another worker's alarm finds their claims too old
        crew.worker(threads=1, **{**SHORT, "PM_CLAIM_SECONDS": 1})
        settle(at_relay, at_plain, relays=[relay, plain])

        # Then all are uncertain, at most one copy came, and nobody called again
        for message in Message.objects.all():
            assert message.status == "uncertain"
            assert message.reason == "transport_connection_lost"
        assert len(relay.connections) + len(plain.connections) == len(stages)
        assert sum(copies_at(relay, plain).values()) == len(HANDED_OVER)

        # And a retry of a key gets the stored answer, and sends nothing
        again = at_relay.post("tls-0")
        assert again.json()["deduplicated"] is True
        assert again.headers["Idempotent-Replayed"] == "true"
        assert len(relay.connections) == len(STAGES + HANDED_OVER)


def test_a_killed_worker_s_send_is_uncertain_within_claim_age_and_alarm_period(
    crew: Processes, relay: SmtpServer, sender: Client, tmp_path: Path
) -> None:
    """R07, must hold 4: killed right after the claim, while a second worker lives."""
    # Given a worker that only runs its alarms, and one that dies once it has claimed
    never = tmp_path / "never"
    living = crew.worker(planted=f"deliver.rung=await:{never}", **SHORT)
    doomed = crew.worker(planted="deliver.claimed=kill", **SHORT)
    living.freeze_idle()  # or it may ring the message itself, again and again
    message = sender.accept("killed-after-claim")
    until(lambda: not doomed.is_alive, what="the worker's death")
    living.thaw()

    # Then the alarm ends its claim in time, without one connection to the relay
    settle(sender, relays=[relay])
    assert status_of(message) == "uncertain"
    attempt = Attempt.objects.get(message__public_id=message)
    told = Event.objects.get(
        type="message.uncertain", payload__data__message_id=message
    )
    waited = (told.occurred_at - attempt.claimed_at).total_seconds()
    assert CLAIM <= waited <= CLAIM + ALARM + 1.5
    assert relay.connections == []


def test_a_thread_whose_holder_was_killed_is_free_once_the_claim_has_ended(
    crew: Processes, relay: SmtpServer, sender: Client
) -> None:
    """Row 32: SIGKILL with a reply in its hands; the next reply waits, and follows."""
    # Given a reply whose worker dies right after its claim, and one that stands still
    pace = {**SHORT, "PM_CLAIM_SECONDS": 4}
    doomed = crew.worker(planted="deliver.claimed=kill", **pace)
    other = crew.worker(**pace)
    other.freeze_idle()
    asked = received(Identity.objects.get(id=sender.account.identity_id))
    first = sender.reply("first", asked.public_id)
    assert first.status_code == httpx.codes.ACCEPTED, first.text
    until(lambda: not doomed.is_alive, what="the worker's death")
    assert doomed.process.returncode == -signal.SIGKILL
    held = Thread.objects.get(key=asked.thread_id)
    assert held.lock_owner == sender.accepted["first"]

    # When the other one goes on, whose alarm ends the claim, and somebody replies
    other.thaw()
    second = sender.reply("second", asked.public_id)

    # Then the second got in when the claim had ended, and it alone was sent
    assert second.status_code == httpx.codes.ACCEPTED, second.text
    assert sender.took[-1] > 1
    assert status_of(sender.accepted["first"]) == "uncertain"
    copies = settle(sender, relays=[relay])
    assert list(copies) == [("second", "jo@example.net")]
    assert status_of(sender.accepted["second"]) == "submitted"
    assert Thread.objects.get(key=asked.thread_id).lock_owner is None


def test_a_worker_killed_before_the_claim_costs_nothing(
    crew: Processes, relay: SmtpServer, sender: Client
) -> None:
    """Row 7: sent later, once."""
    doomed = crew.worker(threads=1, planted="deliver.rung=kill", **SHORT)
    message = sender.accept("killed-before-claim")
    until(lambda: not doomed.is_alive, what="the worker's death")
    assert status_of(message) == "queued"
    crew.worker(threads=1, **SHORT)
    copies = settle(sender, relays=[relay])
    assert status_of(message) == "submitted"
    assert sum(copies.values()) == 1


def test_a_late_record_only_reconciles_or_leaves_evidence(
    crew: Processes, relay: SmtpServer, sender: Client, tmp_path: Path
) -> None:
    """Row 8: frozen for longer than its claim, between the answer and the record."""
    # Given one send that the relay took and one that it deferred, neither recorded
    relay.follow(
        Script(connections=[{"dot": "250 2.0.0 taken"}, {"dot": "451 4.3.0 later"}])
    )
    answered, go = tmp_path / "answered", tmp_path / "go"
    frozen = crew.worker(
        planted=f"deliver.answered=mark:{answered}+await:{go}", **SHORT
    )
    taken = sender.accept("late-accepted")
    until(lambda: lines_of(answered) == 1, what="the first answer")
    deferred = sender.accept("late-deferred")
    until(lambda: lines_of(answered) == 2, what="the second answer")
    frozen.freeze_idle()

    # When another worker's alarm ends both claims, and then the frozen one goes on
    other = crew.worker(**SHORT)
    until(
        lambda: {status_of(taken), status_of(deferred)} == {"uncertain"},
        what="the end of both claims",
    )
    go.touch()
    frozen.thaw()

    # Then the acceptance reconciles its message, and the deferral changes no status
    until(lambda: status_of(taken) == "submitted", what="the late outcome")
    until(
        lambda: Attempt.objects.get(message__public_id=deferred).result == "retry",
        what="the evidence on the attempt",
    )
    assert "reconciled" in Message.objects.get(public_id=taken).flags
    assert status_of(deferred) == "uncertain"
    copies = settle(sender, relays=[relay])
    assert sum(copies.values()) == 1
    assert len(relay.connections) == 2
    assert other.is_alive


def test_a_thawed_worker_never_mails_what_a_person_has_resolved(
    crew: Processes, relay: SmtpServer, sender: Client, tmp_path: Path
) -> None:
    """Row 33: frozen between claim and call until ``not_sent`` was said."""
    claimed, go = tmp_path / "claimed", tmp_path / "go"
    frozen = crew.worker(planted=f"deliver.claimed=mark:{claimed}+await:{go}", **SHORT)
    message = sender.accept("resolved-meanwhile")
    until(lambda: lines_of(claimed) == 1, what="the claim")
    frozen.freeze_idle()
    crew.worker(**SHORT)
    until(lambda: status_of(message) == "uncertain", what="the end of the claim")
    resolve(message, outcome="not_sent", actor_user_id="ada")

    go.touch()
    frozen.thaw()
    marker = sender.accept("after-the-thaw")
    until(lambda: status_of(marker) == "submitted", what="a send after the thaw")
    assert frozen.end() < 10

    copies = settle(sender, relays=[relay])
    assert status_of(message) == "failed"
    assert list(copies) == [("after-the-thaw", "jo@example.net")]
    assert len(relay.connections) == 1


def test_lost_answers_to_the_commits_of_claim_and_record_cost_no_copy(
    crew: Processes, relay: SmtpServer, sender: Client
) -> None:
    """Row 28, through real processes: the answers to 20 of each are lost."""
    trials = 20
    with PgProxy(database_url()) as proxy:
        claims = proxy.at_commit(
            Fault.CUT_AFTER, marker=r"insert into .?attempts", times=trials
        )
        records = proxy.at_commit(
            Fault.CUT_AFTER, marker=r"update .?attempts.*result", times=trials
        )
        sender.accept_many(f"cut-{n}" for n in range(trials))
        crew.worker(threads=4, DATABASE_URL=proxy.url, **SHORT)
        claims.wait(trials)
        records.wait(trials)
        copies = settle(sender, relays=[relay])
        crew.end_all()
    ended = Message.objects.values_list("status", flat=True)
    assert set(ended) == {"submitted"}
    assert sum(copies.values()) == len(relay.connections) == trials
