"""One look at each part of a deployment, in order, and none that hangs the others."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from django.db import connections

from core.database import AWAY
from core.patience import Impatient, TooSlow
from pylota.doctor import database, surroundings, work
from pylota.doctor.findings import Finding, Found, fail, unknown
from pylota.watch.conditions import CONDITIONS

SECONDS: Final = 12.0
"""How long one look may take: longer than any of its own time-outs."""


@dataclass(frozen=True, slots=True)
class Part:
    """Something to look at. ``then`` is what to do when looking fails by itself."""

    name: str
    look: Callable[[], Found]
    then: str = "run doctor again, and see the log of the database"
    in_database: bool = True


DATABASE: Final = Part(
    "database",
    database.server,
    then="start the database, or correct DATABASE_URL",
    in_database=False,
)
PARTS: Final = (
    Part("configuration", surroundings.configuration, in_database=False),
    DATABASE,
    Part("database session", database.session),
    Part("migrations", database.migrations),
    Part("sealed credentials", database.credentials),
    Part(
        "broker",
        surroundings.broker,
        then="start the broker, or correct CELERY_BROKER_URL",
        in_database=False,
    ),
    Part(
        "object store",
        surroundings.object_store,
        then="see why the store does not answer",
        in_database=False,
    ),
    Part("SES", surroundings.ses),
    Part("Cloudflare", surroundings.cloudflare),
    Part("uncertain sends", work.uncertain),
    Part("queue", work.queue),
    *(Part(one.title, partial(work.condition, one)) for one in CONDITIONS),
    Part("alerts", work.alerts),
)


_threads = Impatient("doctor", threads=len(PARTS))


def examine(
    parts: Sequence[Part] = PARTS, *, begin: Callable[[str], None] = lambda name: None
) -> Iterator[Finding]:
    """Look at each part, for at most 12 s each; ``begin`` gets its name before.

    Without a database nothing is said of what stands in it, and nobody waits for it
    again and again.
    """
    is_away = False
    for part in parts:
        begin(part.name)
        if is_away and part.in_database:
            yield Finding(part.name, unknown("the database does not answer"))
            continue
        try:
            found = _threads.run(partial(_look, part), seconds=SECONDS)
        except Exception as error:
            found = fail(_why(error), then=part.then)
            is_away |= part is DATABASE
        yield Finding(part.name, found)


def _look(part: Part) -> Found:
    """Look in this thread, with connections of its own."""
    try:
        return part.look()
    finally:
        connections.close_all()


def _why(error: Exception) -> str:
    """Return why looking failed; the driver's words hold no password."""
    if isinstance(error, TooSlow):
        return f"no answer within {SECONDS:g} s"
    if isinstance(error, AWAY):
        return next(iter(str(error).splitlines()), "no answer").rstrip(".")
    return f"looking failed with {type(error).__name__}"
