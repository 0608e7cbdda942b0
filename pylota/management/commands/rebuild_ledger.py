"""``manage.py rebuild_ledger``: what a restored database has forgotten of its sends."""

from argparse import ArgumentParser
from datetime import datetime
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError

from core.clock import database_now
from core.errors import ObjectStoreAway
from outbound.restoring import Ending, Told, doubt_queued, lost_copies, rebuild

EVERY: Final = 100
"""Copies between two lines of progress."""
NAMED: Final = frozenset({Ending.OWNER_GONE, Ending.UNREADABLE, Ending.FAILED})
"""Endings that a person should look at, each named by its key."""


class Command(BaseCommand):
    """Rebuild the ledger from sent copies, and put in doubt what may have left."""

    help = (
        "After a restore to an earlier time, before web and workers start: every send"
        " accepted since then comes back from its stored copy as uncertain, with its"
        " Idempotency-Key; what stands queued becomes uncertain too. Running it twice"
        " is harmless, and so is running it again after it was stopped."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the moment of the restore."""
        parser.add_argument(
            "--since",
            required=True,
            metavar="T",
            help="the moment the database went back to: 2026-11-30T06:00:00Z",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Rebuild, put in doubt, and say what to do next."""
        since = _instant(options["since"])
        try:
            copies = lost_copies(since=since)
            self.stdout.write(f"{len(copies)} sent copies have no message")
            endings = rebuild(copies, told=self._teller(len(copies)))
        except ObjectStoreAway as error:
            raise CommandError(f"{error.detail} Run the command again.") from None
        doubted, still = doubt_queued()
        counts = ", ".join(f"{endings[ending]} {ending}" for ending in Ending)
        self.stdout.write(f"{counts}; {doubted} queued made uncertain")
        if endings[Ending.FAILED] or still:
            raise CommandError(
                f"{endings[Ending.FAILED]} could not be rebuilt and {still} stand"
                " queued: the log says why. Run the command again before workers start."
            )
        self.stdout.write("next: manage.py jump_ahead, then start web and workers")

    def _teller(self, total: int) -> Told:
        done = 0

        def told(ending: Ending, key: str) -> None:
            nonlocal done
            done += 1
            if ending in NAMED:
                self.stdout.write(f"{ending}: {key}")
            if done % EVERY == 0:
                self.stdout.write(f"{done} of {total}")

        return told


def _instant(text: str) -> datetime:
    """Read an instant with its offset, not later than now. Raises CommandError."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise CommandError(
            f"--since {text}: not an instant like 2026-11-30T06:00:00Z"
        ) from None
    if found.tzinfo is None:
        raise CommandError(f"--since {text}: say the offset, like {text}Z")
    if found > database_now():
        raise CommandError(f"--since {text}: that is still to come")
    return found
