"""What the faulty SMTP server shall do, and when: a small language in JSON.

A *plan* names stages and what happens at each, instead of the ordinary answer::

    {"mail": "451 4.7.1 later", "dot": "kill;drop", "rcpt": ["250 ok", "550 no"]}

Stages: ``connect greeting ehlo starttls tls auth mail rcpt data body dot quit``.
``tls`` is just before the handshake that follows STARTTLS; ``body`` is after the first
octets of the content; ``dot`` is after the final dot, when copies have been counted.

Acts, several joined by ``;``:

- ``NNN text``: this reply. ``half``: half of the ordinary reply, then close.
  ``half:TEXT``: these octets, then close. ``stuck:TEXT``: these octets, then silence.
- ``drop``: close. ``reset``: close with RST.
- ``hang``: silence; ``hang:SECONDS``: silence, then close.
- ``drip``: a long reply, one octet at a time, every ``drip_seconds``.
- ``late:SECONDS``: wait first. ``kill`` / ``freeze``: SIGKILL / SIGSTOP the process
  that holds the other end. ``hook:NAME``: call a function that the test has given.
  After these three the ordinary answer follows, if no other act does.

A list is used up one act per occurrence (its last one stays); a mapping is asked for
the address of the RCPT, then for ``*``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

STAGES = (
    *("connect", "greeting", "ehlo", "starttls", "tls", "auth"),
    *("mail", "rcpt", "data", "body", "dot", "quit"),
)
Acts = str | Sequence[str] | Mapping[str, str]
Plan = Mapping[str, Acts]


@dataclass(frozen=True)
class Script:
    """How the server behaves: what it offers, and a plan for each connection.

    ``connections`` are used in the order of arrival, then ``always``. ``tls`` is
    ``implicit``, ``starttls`` or ``none``; ``certificate`` is ``good``,
    ``self_signed``, ``other_name`` or ``expired``; ``users`` None lets every login in;
    ``injected`` is sent in clear, right behind the 220 to STARTTLS; ``extensions`` are
    further lines of the answer to EHLO.
    """

    tls: str = "implicit"
    certificate: str = "good"
    auth: Sequence[str] = ("PLAIN", "LOGIN")
    users: Mapping[str, str] | None = None
    size: int | None = 10_000_000
    extensions: Sequence[str] = ()
    injected: str = ""
    drip_seconds: float = 0.05
    connections: Sequence[Plan] = ()
    always: Plan = field(default_factory=dict)

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> "Script":
        """Return the script that a JSON object describes."""
        known = {f.name for f in fields(cls)}
        if unknown := set(given) - known:
            raise ValueError(f"unknown: {sorted(unknown)}")
        script = cls(**given)
        for plan in (*script.connections, script.always):
            if unknown := set(plan) - set(STAGES):
                raise ValueError(f"unknown stages: {sorted(unknown)}")
        return script


class Progress:
    """How far one connection has got in its plan."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._used: dict[str, int] = {}

    def acts(self, stage: str, address: str = "") -> list[str]:
        """Return what to do at this occurrence of a stage; nothing: the ordinary."""
        planned = self._plan.get(stage, "")
        if isinstance(planned, Mapping):
            planned = planned.get(address, planned.get("*", ""))
        elif not isinstance(planned, str):
            n = self._used.get(stage, 0)
            self._used[stage] = n + 1
            planned = planned[min(n, len(planned) - 1)]
        return [act for act in planned.split(";") if act]


def refuses(acts: Sequence[str]) -> bool:
    """Say whether these acts end in a complete 4yz or 5yz reply."""
    return any(act[:1] in ("4", "5") for act in acts)
