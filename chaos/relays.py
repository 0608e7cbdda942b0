"""The relays of the run: real SMTP over TLS, what each connection meets, and a count.

What happens to which connection is drawn before the run begins, so that a seed names
it, and so that the promised number of faults happens whatever the timing is.
"""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import cycle
from typing import Final

from chaos.profiles import BY_HTTP, Profile
from tests.support.invariants import KEY_HEADER, Copies
from tests.support.smtp_script import Plan, Script
from tests.support.smtp_seen import Connection
from tests.support.smtp_server import Hook, SmtpServer

WIRE: Final = ("mail", "rcpt", "data", "body", "dot", "quit")
"""Where the process at the other end is killed; ``quit`` is after the reply."""

LATER, NO, CLOSING = "451 4.7.1 later", "550 5.7.1 no", "421 4.3.2 closing"
FAULTS: Final = {
    "connect": ("drop", "reset"),
    "greeting": ("drop", "half", LATER, "421 4.3.2 busy"),
    "ehlo": ("drop", "reset", CLOSING),
    "auth": ("drop", "454 4.7.0 later", "half"),
    "mail": ("drop", LATER, NO, "half", CLOSING),
    "rcpt": ("drop", LATER, NO, CLOSING),
    "data": ("drop", "half", LATER, "reset"),
    "body": ("drop", "reset"),
    "dot": ("drop", "reset", "half", "hang:6", LATER, "554 5.7.1 no"),
    "quit": ("drop", CLOSING, "hang:2"),
    "starttls": ("drop", "454 4.7.0 later"),
}
"""What goes wrong at each stage. A login refused for good would stop its domain."""

AT_ONCE: Final = frozenset({"connect", "greeting"})
VERBS: Final = {"body": "DATA"}
"""The command after which a stage has come, where that is not its own name."""

UNANSWERED: Final = frozenset({"drop", "reset", "half", "hang:6"})
COPIES_A_RING: Final = 4
SPARE: Final = 20
"""Of how many plans one is made once more: a caller may be gone before its stage."""

MORE_DOTS: Final = 2
"""How many more faults than any other stage the final dot has in a round."""

SLOW: Final = 0.25


def plans(rng: random.Random, profile: Profile, *, tls: str) -> list[Plan]:
    """Return what one of the two relays does to its connections, in their order."""
    stages = [stage for stage in FAULTS if stage != "starttls" or tls == "starttls"]
    turn = 0 if tls == "implicit" else len(WIRE) // 2
    found: list[Plan] = [
        {WIRE[(n + turn) % len(WIRE)]: "kill;drop"}
        for n in range(with_spare(share(profile.wire_kills, tls)))
    ]
    acts = {stage: cycle(FAULTS[stage]) for stage in stages}
    stages += ["dot"] * MORE_DOTS
    stages += ["starttls"] * stages.count("starttls")  # one relay alone has it
    for n in range(with_spare(share(profile.smtp_faults, tls))):
        stage = stages[n % len(stages)]
        found.append({stage: next(acts[stage])})
    rings = share(profile.copies, tls) // (COPIES_A_RING - 1)
    found += [{"data": "hook:ring", "dot": f"late:{SLOW}"}] * rings
    by_smtp = profile.keys - profile.keys // BY_HTTP
    ordinary = share(by_smtp * 4 // 5, tls) - len(found)
    found += [{}] * max(0, ordinary)
    rng.shuffle(found)
    return found


def with_spare(number: int) -> int:
    """Return how many to plan for so many to happen."""
    return number + 1 + number // SPARE


def share(number: int, tls: str) -> int:
    """Return one relay's half of a number."""
    return (number + 1) // 2 if tls == "implicit" else number // 2


class Relays:
    """Both relays, TLS from the start and STARTTLS, and what they took."""

    def __init__(self, servers: Sequence[SmtpServer]) -> None:
        self.servers = servers

    def copies(self) -> Copies:
        """Return what was taken responsibility for, by key and recipient."""
        found: Counter[tuple[str, str]] = Counter()
        for server in self.servers:
            with server.changed:
                keys = {mail.message_id: key_of(mail.content) for mail in server.mails}
                for (message_id, recipient), copies in server.copies.items():
                    found[keys[message_id], recipient] += copies
        return found

    def doubted(self) -> set[str]:
        """Return the keys of the mails that were read to the end and not answered."""
        return set().union(*map(doubted_at, self.servers))

    def met(self) -> list[Plan]:
        """Return what of its plan each connection has come to."""
        return [plan for server in self.servers for plan in _met_at(server)]

    @property
    def have_done_all(self) -> bool:
        """Say whether every connection that was to be hurt has come."""
        return all(
            len(server.connections) >= len(server.script.connections)
            for server in self.servers
        )

    def be_kind(self) -> None:
        """Hurt no connection that comes from now on."""
        for server in self.servers:
            server.follow(replace(server.script, connections=()))

    def taken_at(self) -> list[float]:
        """Return when each mail's conversation ended (monotonic seconds), sorted."""
        ends = [
            server.connections[mail.connection].ended
            for server in self.servers
            for mail in list(server.mails)
        ]
        return sorted(end for end in ends if end is not None)


def _met_at(server: SmtpServer) -> list[Plan]:
    """Return the same for one relay; a final dot has come when its mail is there."""
    with server.changed:
        ended = {mail.connection for mail in server.mails}
        return [
            {
                stage: act
                for stage, act in seen.plan.items()
                if stage in AT_ONCE
                or (stage == "dot" and seen.number in ended)
                or (stage != "dot" and VERBS.get(stage, stage.upper()) in seen.verbs)
            }
            for seen in server.connections
        ]


def key_of(content: bytes) -> str:
    """Return the key that a mail was sent under."""
    for line in content.split(b"\r\n\r\n", 1)[0].split(b"\r\n"):
        name, _, value = line.decode("ascii", "replace").partition(":")
        if name.lower() == KEY_HEADER.lower():
            return value.strip()
    return "no key"


def kills_in(met: Sequence[Plan]) -> int:
    """Count the processes that were killed from the wire."""
    return sum("kill" in str(act) for plan in met for act in plan.values())


def faults_in(met: Sequence[Plan]) -> Counter[str]:
    """Count the faults of SMTP by their stage."""
    return Counter(
        stage
        for plan in met
        for stage, act in plan.items()
        if not str(act).startswith(("kill", "hook", "late"))
    )


def doubted_at(server: SmtpServer) -> set[str]:
    """Return the keys of the mails that a living relay has not answered.

    Also those that it left in the middle: the final dot may have been on its way.
    """
    with server.changed:
        return {
            key_in(seen)
            for seen in server.connections
            if {seen.plan.get("body"), seen.plan.get("dot")} & UNANSWERED
        }


def key_in(seen: Connection) -> str:
    """Return the key of the mail that a conversation is about, by its recipients."""
    named = (line for line, _ in seen.commands if line.startswith("RCPT"))
    return next(named, "").partition("<")[2].partition("-")[0]


@contextmanager
def running(rng: random.Random, profile: Profile, ring: Hook) -> Iterator[Relays]:
    """Run both relays; ``ring`` is called in the middle of some conversations."""
    with ExitStack() as stack:
        servers = []
        for tls in ("implicit", "starttls"):
            script = Script(tls=tls, connections=plans(rng, profile, tls=tls))
            server = SmtpServer(script, hooks={"ring": ring})
            servers.append(stack.enter_context(server))
        yield Relays(servers)
