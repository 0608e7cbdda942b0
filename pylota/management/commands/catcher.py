"""``manage.py catcher``: the mail catcher of the local environment."""

import asyncio
import os
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from pylota.catcher.server import serve


class Command(BaseCommand):
    """Catch mail over TLS until Ctrl-C; ``up`` and ``demo`` start this as a child."""

    help = "Catch mail on a loopback port, over TLS, until Ctrl-C (PM_ENV=local only)."
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        """Serve; one line says where."""
        if not settings.LOCAL:
            raise CommandError("the mail catcher is for PM_ENV=local only")
        asyncio.run(serve(settings.PM_DATA_DIR, ready=self._say))

    def _say(self, url: str) -> None:
        self.stdout.write(f"catcher (SMTP over TLS) ready  {url}")
        self.stdout.flush()
        if (waiting := os.environ.get("PM_READY_FD")) is not None:
            os.write(int(waiting), b"1")  # the supervisor waits for this byte
