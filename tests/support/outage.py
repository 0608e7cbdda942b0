"""Workers, a stream of mail and a transport that goes away: hours in seconds.

The clock is the tests' own, and moves from one thing that is due to the next.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from core import clock
from core.clock import database_now
from delivery.models import OutboundState
from mailboxes.models import Identity
from outbound import claims
from outbound.alarms import sweep_claims
from outbound.claims import Claim
from outbound.models import Breaker
from outbound.transports.base import UncertainReason, Unknown
from tests.support.bulk_queue import queue_in_bulk
from tests.support.scripted import accepted

LOST = Unknown(UncertainReason.TIMEOUT, "no answer")


@dataclass
class Outage:
    """What happens to the mail of these identities while their way out is away.

    ``is_away`` is told the seconds since the start. A call to a transport that is away
    hangs for ``hangs`` seconds and ends in doubt, any other is accepted at once.
    ``kills`` names the calls, from 0, whose worker dies in the middle.
    """

    identities: Sequence[Identity]
    is_away: Callable[[float], bool]
    parallel: int = 4
    hangs: float = 30.0
    kills: frozenset[int] = frozenset()
    in_flight: list[tuple[datetime, Claim]] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    probes: list[str] = field(default_factory=list)
    open_calls_when_opened: int = 0

    def __post_init__(self) -> None:
        self.start = database_now()

    def run(self, *, seconds: float, every: float) -> None:
        """Let one message come each ``every`` seconds, for so long."""
        number, turns = int(seconds / every), len(self.identities)
        for turn, identity in enumerate(self.identities):
            dues = [
                self.start + timedelta(seconds=n * every)
                for n in range(turn, number, turns)
            ]
            queue_in_bulk(identity, len(dues), due_at=dues)
        self.advance_to((number - 1) * every)

    def advance_to(self, seconds: float) -> None:
        """Do all that is due until so long after the start."""
        until = self.start + timedelta(seconds=seconds)
        while (due := self._next_due()) is not None and due <= until:
            self._wait_for(due)
            self._end_calls()
            self.ring()
        self._wait_for(until)

    def ring(self) -> None:
        """Claim what is due, as far as there are workers for it."""
        due = OutboundState.objects.filter(
            claim_token=None, dispatch_at__lte=database_now()
        ).order_by("dispatch_at")
        for message in list(due.values_list("message__public_id", flat=True)):
            if len(self.in_flight) >= self.parallel:
                return
            if (claim := claims.claim(message)) is not None:
                self._call(claim)

    def _call(self, claim: Claim) -> None:
        number = len(self.calls)
        self.calls.append(claim.message_id)
        if Breaker.objects.filter(probe_token=claim.token).exists():
            self.probes.append(claim.message_id)
        if number in self.kills:
            return
        if self.is_away((database_now() - self.start).total_seconds()):
            ends = database_now() + timedelta(seconds=self.hangs)
            self.in_flight.append((ends, claim))
        else:
            claims.record(claim, accepted(claim.outgoing))

    def _end_calls(self) -> None:
        for ends, claim in sorted(self.in_flight, key=lambda call: call[0]):
            if ends <= database_now():
                self.in_flight.remove((ends, claim))
                was_open = Breaker.objects.filter(openings__gt=0).exists()
                claims.record(claim, LOST)
                if not was_open and Breaker.objects.filter(openings__gt=0).exists():
                    self.open_calls_when_opened = len(self.in_flight)
        sweep_claims()

    def _next_due(self) -> datetime | None:
        rows = OutboundState.objects.all()
        waiting = rows.filter(claim_token=None).order_by("dispatch_at")
        full = len(self.in_flight) >= self.parallel
        first = None if full else waiting.values_list("dispatch_at", flat=True).first()
        held = rows.exclude(claim_token__in=[c.token for _, c in self.in_flight])
        lost = held.filter(claimed_at__isnull=False).order_by("claimed_at")
        oldest = lost.values_list("claimed_at", flat=True).first()
        lapses = oldest + timedelta(seconds=300) if oldest else None
        ends = [end for end, _ in self.in_flight]
        return min((at for at in (first, lapses, *ends) if at), default=None)

    def _wait_for(self, instant: datetime) -> None:
        clock.offset += max(instant - database_now(), timedelta(0))
