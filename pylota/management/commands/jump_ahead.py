"""``manage.py jump_ahead``: number on past a history that is lost."""

from typing import Any

from django.core.management.base import BaseCommand

from webhooks.outbox import jump_ahead


class Command(BaseCommand):
    """Let the feed and every sequence go on far ahead, after a restore."""

    help = (
        "After a restore to an earlier time, or a failover to a standby that was"
        " behind, before web and workers start: places in the feed and sequences go on"
        " past whatever was given out and is lost. Running it twice is harmless."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        """Jump, and say where the feed goes on."""
        self.stdout.write(f"the feed goes on after place {jump_ahead()}")
