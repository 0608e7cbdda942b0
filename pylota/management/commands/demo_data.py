"""``manage.py demo_data``: a deployment with a past, for pictures and for measuring."""

import time
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from core.clock import database_now
from pylota.demo_data.build import Wanted, build, found
from pylota.demo_data.plan import NotPossible
from pylota.terminal import Terminal


class Command(BaseCommand):
    """Fill a local database with tenants, mail of three months, and an outage."""

    help = (
        "Fill the database of a local environment with made-up tenants, three months "
        "of mail and one outage. A second run adds nothing."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare how much, and the seed."""
        parser.add_argument("--messages", type=int, default=100_000, metavar="N")
        parser.add_argument("--uncertain", type=int, default=1_000, metavar="N")
        parser.add_argument(
            "--seed", type=int, default=1, help="the same seed draws the same again"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Refuse, or say what is there already, or build it and say what was made."""
        if not settings.LOCAL:
            raise CommandError(
                f"PM_ENV is {settings.PM_ENV}: made-up data is for PM_ENV=local alone. "
                "Nothing was added."
            )
        if options["messages"] < 0 or options["uncertain"] < 0:
            raise CommandError("--messages and --uncertain are not negative")
        if (there := found()) is not None:
            self.stdout.write(
                f"{there} messages of an earlier run are here; nothing was added. To "
                "start over, empty the database: python manage.py flush"
            )
            return
        self._build(options)

    def _build(self, options: dict[str, Any]) -> None:
        terminal, began = Terminal(self.stdout), time.monotonic()
        wanted = Wanted(
            messages=options["messages"],
            uncertain=options["uncertain"],
            seed=options["seed"],
            now=database_now(),
        )

        def say(done: int) -> None:
            seconds = time.monotonic() - began
            terminal.say(f"{done:>9} of {wanted.messages} messages, {seconds:.1f} s")

        try:
            written = build(wanted, say=say)
        except NotPossible as error:
            raise CommandError(str(error)) from None
        for table, count in written.items():
            terminal.say(f"{count:>9} {table}")
        terminal.say(f"done in {time.monotonic() - began:.1f} s")
