"""The SMTP transport under its claim: phases, age, slots, guard, sudden death."""

import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from core import points
from outbound.slots import Slots
from outbound.transports.base import (
    Accepted,
    ClaimLost,
    Phase,
    Rejected,
    RejectReason,
    RetryClass,
    RetryLater,
)
from tests.support.relays import MESSAGE_ID, copies, outgoing, relay, transport
from tests.support.smtp_control import RemoteServer
from tests.support.smtp_script import Script
from tests.support.smtp_server import SmtpServer

ROOT = Path(__file__).resolve().parents[2]
PHASES = [Phase.CONNECTING, Phase.SENDING, Phase.AWAITING_REPLY]


def test_each_phase_is_announced_before_its_first_octet_leaves() -> None:
    # Given somebody who looks at the relay when a phase is announced
    with SmtpServer() as server:
        seen: list[tuple[Phase, int, list[str], int]] = []

        def announce(phase: Phase) -> None:
            verbs = server.connections[0].verbs if server.connections else []
            seen.append((phase, len(server.connections), verbs, len(server.mails)))

        transport().send(outgoing(server, announce=announce))

        # Then there was no connection, no MAIL, no dot yet
        assert [phase for phase, *_ in seen] == PHASES
        assert seen[0][1] == 0
        assert "MAIL" not in seen[1][2]
        assert (seen[2][2][-1], seen[2][3]) == ("DATA", 0)


@pytest.mark.parametrize("lost_at", PHASES)
def test_a_claim_lost_at_any_phase_sends_nothing_more(lost_at: Phase) -> None:
    def announce(phase: Phase) -> None:
        if phase == lost_at:
            raise ClaimLost

    with SmtpServer() as server:
        with pytest.raises(ClaimLost):
            transport().send(outgoing(server, announce=announce))

        server.wait_until(lambda: server.open_now == 0)
        assert server.mails == []
        verbs = [verb for seen in server.connections for verb in seen.verbs]
        assert "QUIT" not in verbs
        assert len(server.connections) == (0 if lost_at == Phase.CONNECTING else 1)


@pytest.mark.parametrize("failing", PHASES)
def test_a_phase_that_cannot_be_recorded_ends_the_call_with_nothing_sent(
    failing: Phase,
) -> None:
    def announce(phase: Phase) -> None:
        if phase == failing:
            raise OSError("the database is away")

    with SmtpServer() as server:
        result = transport().send(outgoing(server, announce=announce))

        assert isinstance(result, RetryLater)
        assert (result.retry_class, result.code) == (
            RetryClass.RELAY,
            "phase_not_recorded",
        )
        assert server.mails == []


def _ages(*left: float) -> Callable[[], float]:
    """Return a claim's remaining seconds in order; the last one stays."""
    answers = list(left)
    return lambda: answers.pop(0) if len(answers) > 1 else answers[0]


def test_too_little_left_of_the_claim_makes_no_connection() -> None:
    with SmtpServer() as server:
        message = outgoing(server, seconds_left=_ages(59))
        result = transport(final_seconds=60).send(message)

        assert isinstance(result, RetryLater)
        assert (result.retry_class, result.code) == (RetryClass.RELAY, "claim_too_old")
        assert server.connections == []


def test_too_little_left_before_the_dot_writes_no_dot() -> None:
    # Given a claim that is young at the start and old when all is written
    with SmtpServer() as server:
        message = outgoing(server, seconds_left=_ages(300, 300, 59))
        result = transport(final_seconds=60).send(message)

        assert isinstance(result, RetryLater)
        assert result.code == "claim_too_old"
        server.wait_until(lambda: server.open_now == 0)
        assert server.mails == []
        assert server.connections[0].verbs[-1] == "DATA"


def test_a_worker_frozen_before_the_dot_asks_for_the_age_after_it_woke() -> None:
    # Given a process that stands still between the announcement and the dot
    left = [300.0]

    def freeze() -> None:
        left[0] = 1.0  # as after minutes of SIGSTOP

    points.planted["smtp.before_final_dot"] = freeze
    with SmtpServer() as server:
        result = transport().send(outgoing(server, seconds_left=lambda: left[0]))

        assert isinstance(result, RetryLater)
        assert result.code == "claim_too_old"
        server.wait_until(lambda: server.open_now == 0)
        assert server.mails == []


def test_the_time_for_the_reply_shrinks_with_the_deadline() -> None:
    # Given a claim of two seconds and a deadline inside it, as harnesses set them
    with SmtpServer(Script(always={"dot": "hang"})) as server:
        message = outgoing(server, deadline_seconds=8, seconds_left=_ages(10))
        result = transport(final_seconds=60).send(message)

        assert not isinstance(result, RetryLater)
        assert copies(server) == 1


def test_a_relay_that_left_before_the_dot_is_tried_later_not_in_doubt() -> None:
    # Given a relay that is gone when all is written but the dot
    with SmtpServer(Script(always={"body": "drop"})) as server:

        def announce(phase: Phase) -> None:
            if phase == Phase.AWAITING_REPLY:
                server.wait_until(lambda: server.open_now == 0)

        result = transport().send(outgoing(server, announce=announce))

        assert isinstance(result, RetryLater)
        assert result.code == "connection_lost"


@pytest.mark.parametrize(
    "recipient", ["b@y.test> SIZE=9", "b@y.test\r\nDATA", "b c@y.test"]
)
def test_an_address_that_would_be_a_command_is_never_written(recipient: str) -> None:
    with SmtpServer() as server:
        result = transport().send(outgoing(server, "a@y.test", recipient))

        assert isinstance(result, Rejected)
        assert (result.reason, result.code) == (
            RejectReason.PROVIDER_VALIDATION,
            "address_invalid",
        )
        assert "MAIL" not in server.connections[0].verbs


def test_a_relay_that_refuses_the_connection_is_tried_later() -> None:
    with SmtpServer() as server:
        gone = outgoing(server)
    result = transport().send(gone)

    assert isinstance(result, RetryLater)
    assert (result.retry_class, result.code) == (RetryClass.RELAY, "connect_failed")


@pytest.mark.parametrize(
    ("host", "port"),
    [
        ("127.0.0.1", 465),
        ("localhost", 465),
        ("relay.local", 465),
        ("2130706433", 587),
        ("api.pylota.net", 465),
        ("relay.example.com", 25),
        ("relay.example.com", 465),
    ],
)
def test_outside_the_local_environment_the_guard_stands_before_every_relay(
    monkeypatch: pytest.MonkeyPatch, host: str, port: int
) -> None:
    # Given a listener here, and names that all lead here
    with SmtpServer() as server:
        here = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", server.port))
        monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **options: [here])

        guarded = transport(allow_private=False, refused_hosts=["api.pylota.net"])
        message = outgoing(server, relay=relay(server, host=host, port=port))
        result = guarded.send(message)

        # Then nobody ever knocks
        assert isinstance(result, RetryLater)
        assert result.code == "host_refused"
        assert server.connections == []


def test_a_name_nobody_knows_is_tried_later(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*args: object, **options: object) -> list[Any]:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with SmtpServer() as server:
        message = outgoing(server, relay=relay(server, host="relay.nowhere.net"))
        result = transport().send(message)

        assert isinstance(result, RetryLater)
        assert result.code == "lookup_failed"


def test_sixteen_threads_never_open_more_than_four_relay_sockets() -> None:
    # Given a relay that takes its time, and sixteen threads of three domains
    slots = Slots(4, places=16, patience_seconds=60)
    barrier = threading.Barrier(16)
    lock = threading.Lock()
    open_now: list[int] = []
    most: list[int] = []
    with SmtpServer(Script(always={"mail": "late:0.05"})) as server:

        def work(number: int) -> int:
            barrier.wait(10)
            sent = 0
            while sent < 3:
                if (slot := slots.take(f"{number % 3}.test")) is not None:
                    with slot:
                        with lock:
                            open_now.append(number)
                            most.append(len(open_now))
                        result = transport().send(outgoing(server))
                        with lock:
                            open_now.remove(number)
                    assert isinstance(result, Accepted)
                    sent += 1
            return sent

        with ThreadPoolExecutor(16) as pool:
            assert sum(pool.map(work, range(16))) == 48

        assert server.copies[(f"<{MESSAGE_ID}>", "a@y.test")] == 48
    assert max(most) <= 4
    assert (slots.held, slots.waiting) == (0, 0)


SENDER = """
import json, sys
from tests.support.relays import CONTENT, MESSAGE_ID, transport
from outbound.transports.base import OutgoingMessage, Relay
given = json.loads(sys.argv[1])
relay = Relay("127.0.0.1", given["port"], "u", "p", True, given["ca"])
result = transport().send(OutgoingMessage(
    "msg_1", MESSAGE_ID, "x.test", "from@x.test", ("a@y.test",),
    CONTENT + b"0123456789" * 500_000, relay))
assert "django" not in sys.modules, "a transport needs no Django"
print(type(result).__name__)
"""


def _send_in_a_process(server: RemoteServer) -> subprocess.CompletedProcess[str]:
    given = json.dumps({"port": server.port, "ca": server.ca})
    return subprocess.run(
        [sys.executable, "-c", SENDER, given],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(("stage", "taken"), [("mail", 0), ("body", 0), ("dot", 1)])
def test_a_process_killed_from_the_wire_leaves_what_the_stage_says(
    stage: str, taken: int
) -> None:
    # Given a relay that kills whoever holds the other end, once
    with RemoteServer({"connections": [{stage: "kill"}]}) as server:
        killed = _send_in_a_process(server)

        # Then the process died there, and the relay has a copy only after the dot
        assert killed.returncode == -signal.SIGKILL
        server.wait_until(lambda s: s.ask("state")["open"] == 0)
        assert sum(server.copies().values()) == taken

        # And the next one, in a process without Django, goes through
        lived = _send_in_a_process(server)
        assert (lived.returncode, lived.stdout) == (0, "Accepted\n"), lived.stderr
