"""What each key may have come to, kept beside the tables, and a provider that counts.

A model for histories of sends. It knows what has been accepted, called, told and
answered, never what is stored: of each recipient it holds the states that are allowed.
The provider counts copies by key and recipient, and what it says later is true.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from core.clock import database_now
from core.points import reach
from delivery.statuses import TRANSITIONS, DeliveryKind, DeliveryStatus
from outbound.transports.base import (
    Accepted,
    ClaimLost,
    OutgoingMessage,
    Phase,
    RecipientSuppressed,
    Rejected,
    RejectReason,
    RetryClass,
    RetryLater,
    TransportResult,
    UncertainReason,
    Unknown,
)

D = DeliveryStatus
CLAIM: Final = timedelta(seconds=300)
FIRST_RETRY: Final = timedelta(seconds=54)
"""Sixty seconds, less the tenth by which it is spread."""

LAST_RETRY: Final = timedelta(hours=22)
"""From this age on the next retry may fall past the day after which there is none."""

ANSWERS: Final = (
    *("accepted", "later", "lost, taken", "partly", "rejected"),
    *("lost, not taken", "suppressed"),
)
TAKES: Final = frozenset({"accepted", "lost, taken", "partly"})
DENIES: Final = frozenset({DeliveryKind.FAILED, DeliveryKind.REJECTED})
"""What a provider can say of a mail that it had taken: then it is no I3 of ours."""


@dataclass
class Send:
    """One key that was accepted, and what may have become of each recipient."""

    key: str
    message_id: str
    recipients: tuple[str, ...]
    accepted_at: datetime
    earliest: datetime | None = None
    claimed_at: datetime | None = None
    is_canceled: bool = False
    allowed: dict[str, frozenset[str]] = field(default_factory=dict)
    heard: dict[str, list[DeliveryKind]] = field(default_factory=dict)
    waiting: dict[str, list[DeliveryKind]] = field(default_factory=dict)
    """Words that may not be applied yet: their call is not over, or goes by likeness"""

    def __post_init__(self) -> None:
        """Begin queued, with nothing heard."""
        for address in self.recipients:
            self.put(address, D.QUEUED)
            self.heard[address], self.waiting[address] = [], []

    def put(self, address: str, *states: str) -> None:
        """Say where a recipient may stand now."""
        self.allowed[address] = frozenset(map(str, states))

    def may_be(self, status: str) -> list[str]:
        """Return the recipients who may have this status."""
        return [a for a in self.recipients if status in self.allowed[a]]

    def reachable(self, address: str) -> frozenset[str]:
        """Return the allowed states, and what words that wait may make of them."""
        found = set(self.allowed[address])
        for _ in self.waiting[address]:
            for kind in self.waiting[address]:
                found |= moved(found - {D.QUEUED}, [kind])
        return frozenset(found)

    def lapse(self, now: datetime) -> None:
        """Let a claim that is too old end in doubt."""
        if self.claimed_at is not None and now - self.claimed_at >= CLAIM:
            self.claimed_at = None
            for address in self.may_be(D.QUEUED):
                rest = self.allowed[address] - {D.QUEUED}
                self.put(address, D.UNCERTAIN, *rest)

    def wait(self, addresses: Iterable[str], now: datetime) -> None:
        """Let recipients be tried again, unless their day is over."""
        ends = {D.FAILED} if now - self.accepted_at > LAST_RETRY else set()
        for address in addresses:
            self.put(address, D.QUEUED, *ends)
        self.earliest = now + FIRST_RETRY


def moved(states: Iterable[str], kinds: Iterable[DeliveryKind]) -> frozenset[str]:
    """Return what words, one after the other, make of each of these states."""
    found = {D(state) for state in states}
    for kind in kinds:
        found = {TRANSITIONS.get((state, kind), state) for state in found}
    return frozenset(map(str, found))


@dataclass
class Call:
    """One call that the provider saw, and how it means to answer."""

    send: Send
    recipients: tuple[str, ...]
    answer: str


@dataclass
class CountingProvider:
    """Answers from a script and counts its copies; asserts that it may be called."""

    sends: dict[str, Send] = field(default_factory=dict)
    copies: Counter[tuple[str, str]] = field(default_factory=Counter)
    script: list[str] = field(default_factory=list)
    meanwhile: dict[str, Callable[[Send], object]] = field(default_factory=dict)
    under_way: list[Call] = field(default_factory=list)
    shunned: set[str] = field(default_factory=set)
    """Who may be suppressed by now: the provider refused them, or said so later."""
    faults: list[AssertionError] = field(default_factory=list)
    calls: int = 0

    def send(self, message: OutgoingMessage) -> TransportResult:
        """Take one call; things may happen before the copy is made, and after.

        A worker makes a doubt of whatever a transport raises: faults are kept.
        """
        try:
            return self._send(message)
        except AssertionError as fault:
            self.faults.append(fault)
            raise

    def _send(self, message: OutgoingMessage) -> TransportResult:
        call = self._begin(message)
        self._happen("before", call.send)
        reach("smtp.before_final_dot")
        try:
            message.announce(Phase.AWAITING_REPLY)
        except ClaimLost:
            call.answer = "claim lost"
            raise
        if call.answer in TAKES:
            self.copies.update((call.send.key, a) for a in self._taken(call))
        if call.answer == "suppressed":
            self.shunned.add(call.recipients[-1])
        reach("smtp.after_reply")
        self._happen("after", call.send)
        return _result(call, message)

    def _begin(self, message: OutgoingMessage) -> Call:
        send, now = self.sends[message.message_id], database_now()
        if self.under_way and self.under_way[-1].answer == "suppressed":
            self.end(self.under_way.pop(), now=now)  # the next round of one claim
            send.earliest = None
        for address in message.recipients:
            assert D.QUEUED in send.allowed[address], "a call for who is settled"
            assert not self.copies[send.key, address], "a call for who has a copy"
        self.claim(send, now)
        for address in send.may_be(D.QUEUED):
            is_called = address in message.recipients
            send.put(address, D.QUEUED if is_called else D.SUPPRESSED)
        self.calls += 1
        answer = self.script.pop(0) if self.script else "accepted"
        self.under_way.append(Call(send, message.recipients, answer))
        return self.under_way[-1]

    def claim(self, send: Send, now: datetime) -> None:
        """Write down that a worker has taken a send; assert that it could."""
        assert not send.is_canceled, "a call after its cancel"
        assert send.claimed_at is None, "a call beside a claim"
        is_due = send.earliest is None or now >= send.earliest
        assert is_due, "a call before its retry is due"
        send.claimed_at = now
        for address in send.may_be(D.QUEUED):
            if address in self.shunned:  # who is suppressed by now is set aside
                send.put(address, *send.allowed[address], D.SUPPRESSED)

    def _happen(self, when: str, send: Send) -> None:
        if (act := self.meanwhile.pop(when, None)) is not None:
            act(send)

    def _taken(self, call: Call) -> tuple[str, ...]:
        return call.recipients[:1] if call.answer == "partly" else call.recipients

    def end(self, call: Call, *, now: datetime) -> None:
        """Write down what was recorded of a call, in time or late."""
        if call.send.claimed_at is None:
            self._end_late(call)
            return
        call.send.claimed_at = None
        if call.answer == "later":
            call.send.wait(call.recipients, now)
            return
        if call.answer == "partly":
            call.send.wait(call.recipients[1:], now)
        for address, state in _states_after(call, self._taken(call)).items():
            call.send.put(address, state)

    def _end_late(self, call: Call) -> None:
        """An acceptance settles a doubt, and of the deferred nobody is tried again."""
        if call.answer in {"accepted", "partly"}:
            for address in set(call.recipients) & set(call.send.may_be(D.UNCERTAIN)):
                is_taken = address in self._taken(call)
                call.send.put(address, D.SUBMITTED if is_taken else D.FAILED)

    def truth(self, send: Send) -> str | None:
        """Return what an honest person says of the doubtful; None: cannot be told."""
        found = {self.copies[send.key, a] for a in send.may_be(D.UNCERTAIN)}
        if len(found) > 1:
            return None
        return "sent" if found == {1} else "not_sent"


def _states_after(call: Call, taken: tuple[str, ...]) -> dict[str, str]:
    match call.answer:
        case "accepted" | "partly":
            return dict.fromkeys(taken, D.SUBMITTED)
        case "rejected":
            return dict.fromkeys(call.recipients, D.REJECTED)
        case "suppressed":
            return dict.fromkeys(call.recipients[-1:], D.SUPPRESSED)
    return dict.fromkeys(call.recipients, D.UNCERTAIN)


def _result(call: Call, message: OutgoingMessage) -> TransportResult:
    match call.answer:
        case "accepted":
            return Accepted(_id_of(call), message.rfc_message_id)
        case "partly":
            return Accepted(_id_of(call), deferred=call.recipients[1:])
        case "rejected":
            return Rejected(RejectReason.PROVIDER_VALIDATION, "invalid", "refused")
        case "later":
            return RetryLater(RetryClass.RELAY, "busy")
        case "suppressed":
            return RecipientSuppressed("suppressed", "", {call.recipients[-1]: "list"})
    return Unknown(UncertainReason.CONNECTION_LOST, "reset")


def _id_of(call: Call) -> str:
    return f"provider:{call.send.message_id}:{call.recipients[0]}"
