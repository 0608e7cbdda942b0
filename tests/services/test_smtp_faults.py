"""Every fault at every stage of an SMTP call: twenty and more at each, over TLS.

Whatever fails before the final dot leaves no copy and is tried later, unless the answer
was a complete refusal; after it only a complete answer counts; after the 250 nothing
matters. One call makes one connection.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from outbound.transports.base import (
    Accepted,
    Rejected,
    RetryLater,
    TransportResult,
    Unknown,
)
from outbound.transports.smtp import SmtpTransport
from tests.support.relays import CONTENT, copies, outgoing, transport
from tests.support.smtp_script import STAGES, Acts, Script
from tests.support.smtp_server import SmtpServer

SILENCE = 1.0
"""Seconds after which the step is over that a silent fault has struck."""
SILENT = ("hang", "drip", "stuck")

FAULTS = (
    *("drop", "reset", "hang", "drip", "late:0.015;drop", "late:0.1;reset"),
    *("half", "half:250 ok", "half:451 4.3.0 later", "half:550 5.7", "half:2"),
    *("stuck:250 2.0.0 ok", "half:250-ok\r\n"),
    *("451 4.3.0 later", "421 4.3.2 closing", "451-4.3.0 busy\r\n451 4.3.0 later"),
    *("550 5.7.1 no", "554-5.7.1 no\r\n554 5.7.1 never"),
    *("250-one\r\n451 two", "garbage", "999 what"),
)
LARGE = CONTENT + b"0123456789" * 7 * 60_000
"""More than the sockets between us can hold: the server stops us in the middle."""


@dataclass(frozen=True)
class Case:
    """One fault at one stage, at one of the places where the stage may come."""

    tls: str
    stage: str
    act: str
    plan: dict[str, Acts]
    auth: tuple[str, ...] = ("PLAIN", "LOGIN")

    @property
    def refusal(self) -> str:
        """Return the class of the complete refusal that the act is, if any."""
        is_code = self.act[:3].isdecimal() and self.act[3:4] in (" ", "-")
        is_one = len({line[:3] for line in self.act.split("\r\n")}) == 1
        return self.act[0] if is_code and is_one and self.act[0] in "45" else ""

    def transport(self) -> SmtpTransport:
        """Return a transport that is patient, but where this fault falls silent."""
        if self.stage == "quit" or not self.act.startswith(SILENT):
            return transport()
        if self.stage == "dot":
            return transport(final_seconds=SILENCE)
        return transport(connect_seconds=SILENCE, command_seconds=SILENCE)

    def expected(self) -> type[TransportResult]:
        """Return what the tables say of this fault."""
        if self.stage == "quit":
            return Accepted
        if self.refusal == "5" and self.stage in ("auth", "mail", "rcpt", "dot"):
            return Rejected
        if self.stage == "dot" and not self.refusal:
            return Unknown
        return RetryLater


def _cases(stage: str) -> Iterator[Case]:
    for act in FAULTS:
        for tls in ("implicit", "starttls"):
            if stage not in ("starttls", "tls") or tls == "starttls":
                yield Case(tls, stage, act, {stage: act})
        if stage == "ehlo":  # the second one, inside TLS
            yield Case("starttls", stage, act, {stage: ["", act]})
        if stage == "auth":
            yield Case("implicit", stage, act, {stage: act}, auth=("LOGIN",))


def _run(case: Case) -> str:
    """Make one call; return what is wrong with how it ended, or nothing."""
    script = Script(tls=case.tls, auth=case.auth, always=case.plan)
    mime = LARGE if case.stage == "body" else CONTENT
    with SmtpServer(script) as server:
        result = case.transport().send(outgoing(server, mime=mime))
        taken, made = copies(server), len(server.connections)
    wanted = 1 if isinstance(result, Accepted | Unknown) else 0
    if type(result) is case.expected() and taken == wanted and made <= 1:
        return ""
    return f"{case}: {result}, {taken} copies, {made} connections"


@pytest.mark.parametrize("stage", STAGES)
def test_a_fault_at_this_stage_never_makes_a_second_copy_nor_a_false_answer(
    stage: str,
) -> None:
    """Row 15: at least twenty faults at each stage of the dialogue."""
    # Given every fault, on both kinds of port
    cases = list(_cases(stage))
    assert len(cases) >= 20

    # When each strikes one call
    with ThreadPoolExecutor(12) as pool:
        wrong = [outcome for outcome in pool.map(_run, cases) if outcome]

    # Then each call ended as the tables say, and the server saw one connection
    assert wrong == []
