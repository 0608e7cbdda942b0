"""How much a run does: the column for each change, the one for a release."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The numbers of a run; ``seconds`` is how long its clients and faults last.

    ``kills`` come on a random clock, ``wire_kills`` at a stage of a conversation.
    ``http_kills`` and ``http_faults`` are those at the HTTP provider.
    ``restarts`` are of the database, of the broker and of the web, each so many.
    ``copies`` are further copies of a task in the broker, ``cuts`` connections to the
    database that end around a COMMIT.
    """

    keys: int
    kills: int
    wire_kills: int
    restarts: int
    freezes: int
    copies: int
    smtp_faults: int
    cuts: int
    http_kills: int
    http_faults: int
    seconds: float


PROFILES: Final = {
    "ci": Profile(
        keys=300,
        kills=10,
        wire_kills=10,
        restarts=1,
        freezes=1,
        copies=150,
        smtp_faults=45,
        cuts=18,
        http_kills=3,
        http_faults=12,
        seconds=55,
    ),
    "release": Profile(
        keys=1200,
        kills=30,
        wire_kills=50,
        restarts=5,
        freezes=4,
        copies=1500,
        smtp_faults=250,
        cuts=90,
        http_kills=12,
        http_faults=60,
        seconds=200,
    ),
    "mutant": Profile(
        keys=150,
        kills=2,
        wire_kills=8,
        restarts=0,
        freezes=0,
        copies=120,
        smtp_faults=33,
        cuts=12,
        http_kills=0,
        http_faults=6,
        seconds=20,
    ),
}

TOO_LITTLE: Final = "the run hurt too little"
"""A run that did less than its profile says has failed, and has caught nothing."""

CALM: Final = 30.0
"""How long all may take to come to rest once nothing hurts any more, in seconds."""

CLAIM: Final = 8.0
PARALLEL: Final = 2
WORKERS: Final = 3
REDISPATCH: Final = 4.0
BY_HTTP: Final = 6
"""Of how many keys one is sent by the HTTP provider."""

PACE: Final = {
    "PM_CLAIM_SECONDS": str(CLAIM),
    "PM_ALARM_SECONDS": "1",
    "PM_REDISPATCH_SECONDS": str(REDISPATCH),
    "PM_BACKOFF_SCALE": "0.01",
    "PM_BREAKER_SECONDS": "2",
    "PM_SMTP_CONNECT_SECONDS": "4",
    "PM_SMTP_COMMAND_SECONDS": "3",
    "PM_SMTP_FINAL_SECONDS": "4",
    "PM_SMTP_PARALLEL": str(PARALLEL),
    "PM_WORKER_THREADS": "8",
    "PM_WEB_WORKERS": "2",
    "PM_WEB_THREADS": "8",
    "PM_RATE_PER_KEY": "0",
    "PM_RATE_PER_TENANT": "0",
    "PM_RATE_SENDS": "0",
    "PM_DEFAULT_POLICY": '{"identity_daily_send_cap": 100000,'
    ' "tenant_daily_send_cap": 100000}',
}
"""The settings of a run: seconds instead of minutes, and no limit that it meets."""
